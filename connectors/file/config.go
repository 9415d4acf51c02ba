package file

import (
	"fmt"
	"strings"

	"millrace/connectors"
	"millrace/schema"
	"millrace/schema/config"
	"millrace/schema/plugin"
)

var (
	sourceFile = config.Key[string]{Name: "file", Importance: config.High,
		Doc: "File whose lines are read, and followed as it grows and is rotated. Standard input when there is none."}
	topic = config.Key[string]{Name: "topic", Importance: config.High, Required: true, Check: config.NonEmpty,
		Doc: "Topic to which the lines are written."}
	batchSize = config.Key[int32]{Name: "batch.size", Importance: config.Low, Default: connectors.MaxBatchRecords,
		Doc: "Most records in one batch; no batch is larger than 2,000 records or 1 MiB."}

	sinkFile = config.Key[string]{Name: "file", Importance: config.High,
		Doc: "File to which the values are appended, one a line. Standard output when there is none."}
)

// The known failures of both connectors.
var (
	outside = connectors.Reason{Code: "file.outside_roots", Retry: connectors.RetryNever,
		Doc:    "The file lies outside the folders that file connectors may use, or a symbolic link leads outside.",
		Remedy: "use a file below one of the roots, or allow its folder with --file-root (file.roots)"}
	notRegular = connectors.Reason{Code: "file.not_regular", Retry: connectors.RetryNever,
		Doc:    "The path names a directory, a pipe or a device. Only regular files can be followed and appended to.",
		Remedy: "name a regular file"}
	unreadable = connectors.Reason{Code: "file.unreadable",
		Doc:    "The operating system refuses to open or read the file.",
		Remedy: "let the user that runs Millrace read the file and enter its folder"}
	unwritable = connectors.Reason{Code: "file.unwritable",
		Doc:    "The operating system refuses to create, open or write the file.",
		Remedy: "create the folder, and let the user that runs Millrace write there"}
	full = connectors.Reason{Code: "file.disk_full", Retry: connectors.RetryHelps,
		Doc:    "There is no room on the disk, or the user's quota is used up.",
		Remedy: "make room; writing goes on by itself"}
	longLine = connectors.Reason{Code: "file.line_too_long",
		Doc:    "A line is longer than a record can be. It is never split.",
		Remedy: "stop the connector and set its offset behind the line"}
)

// Source is the file source connector.
var Source = connectors.SourcePlugin{
	Info: plugin.Info{
		Name:    "file-source",
		Aliases: []string{"file"},
		Class:   "org.apache.kafka.connect.file.FileStreamSourceConnector",
		Version: schema.ConnectVersion,
		Doc:     "Streams the lines of a file, following rotation and truncation.",
		Config:  config.Define(sourceFile, topic, batchSize),
	},
	TaskClass: "org.apache.kafka.connect.file.FileStreamSourceTask",
	Reasons:   []*connectors.Reason{&outside, &notRegular, &unreadable, &longLine},
	New:       newSource,
	NewTask:   newSourceTask,
}

// Sink is the file sink connector.
var Sink = connectors.SinkPlugin{
	Info: plugin.Info{
		Name:    "file-sink",
		Class:   "org.apache.kafka.connect.file.FileStreamSinkConnector",
		Version: schema.ConnectVersion,
		Doc:     "Appends the values of records to a file, one a line.",
		Config:  config.Define(sinkFile),
	},
	TaskClass: "org.apache.kafka.connect.file.FileStreamSinkTask",
	Reasons:   []*connectors.Reason{&outside, &notRegular, &unwritable, &full},
	New:       newSink,
	NewTask:   newSinkTask,
}

// allowed is the path to open for a configured file, or why there is none.
func allowed(files connectors.Files, path string) (string, error) {
	if files == nil {
		return "", connectors.Failed(&outside, nil, fmt.Sprintf("file %q: this worker allows no files", path), "")
	}
	abs, err := files.Check(path)
	if err != nil {
		cause, remedy, _ := strings.Cut(err.Error(), "; ") // it names the roots and how to change them
		return "", connectors.Failed(&outside, nil, cause, remedy)
	}
	return abs, nil
}
