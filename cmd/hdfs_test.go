package cmd_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/colinmarc/hdfs/v2"

	"millrace/deploy/peers"
)

// A worker is killed again and again while lines of a file go through a topic into files of HDFS, which the clock ends as well: in the end each stands in one
// visible file.
func TestKillsPutEachRecordIntoOneFileOfHDFS(t *testing.T) {
	server := peers.HDFS(t)
	root := "/tmp/" + peers.Unique(t, "worker")
	cl, err := hdfs.NewClient(hdfs.ClientOptions{Addresses: server.NameNodes[:1], User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	killsWhileFilesAreWritten(t, map[string]string{"connector.class": "io.confluent.connect.hdfs.HdfsSinkConnector", "format.class": "io.confluent.connect.hdfs.json.JsonFormat",
		"hdfs.url": "hdfs://" + server.NameNodes[0] + root, "hdfs.user.name": "alice", "rotate.schedule.interval.ms": "100", "timezone": "UTC"}, func() []string { return hdfsLines(t, cl, root+"/topics/lines") })
}

// hdfsLines are the lines of all files of a folder, which need not be there yet.
func hdfsLines(t *testing.T, cl *hdfs.Client, folder string) (out []string) {
	t.Helper()
	err := cl.Walk(folder, func(name string, info fs.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		text, err := cl.ReadFile(name)
		out = append(out, strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")...)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out
}
