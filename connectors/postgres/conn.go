package postgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"millrace/connectors"
)

const (
	readBuffer     = 256 << 10
	connectTimeout = 30 * time.Second
)

// config is the driver's configuration: all from ours, nothing from the environment.
func (s *settings) config(replication bool) (*pgconn.Config, error) {
	var b strings.Builder
	set := func(k, v string) {
		if v != "" {
			v = strings.ReplaceAll(strings.ReplaceAll(v, `\`, `\\`), `'`, `\'`)
			fmt.Fprintf(&b, "%s='%s' ", k, v)
		}
	}
	set("host", s.host)
	set("port", strconv.Itoa(s.port))
	set("user", s.user)
	set("dbname", s.database)
	set("sslmode", "disable") // dial sees to it
	set("target_session_attrs", "any")
	set("passfile", os.DevNull)
	cfg, err := pgconn.ParseConfig(b.String())
	if err != nil {
		return nil, connectors.BadConfig(fmt.Errorf("settings of the connection: %w", err))
	}
	cfg.Password = s.password.Reveal()
	cfg.ConnectTimeout = connectTimeout
	// What columns look like as text hangs on these; decoders rely on them.
	cfg.RuntimeParams = map[string]string{
		"application_name": s.application(), "client_encoding": "UTF8", "TimeZone": "UTC", "DateStyle": "ISO, MDY", "IntervalStyle": "postgres",
		"extra_float_digits": "3", "bytea_output": "hex", "lc_monetary": "C", "standard_conforming_strings": "on", "statement_timeout": "0",
	}
	if replication {
		cfg.RuntimeParams["replication"] = "database"
	}
	dialer := &net.Dialer{Timeout: connectTimeout}
	if !s.tcpKeepAlive {
		dialer.KeepAlive = -1
	}
	cfg.DialFunc = dialer.DialContext
	return cfg, nil
}

// application is what the server's views call our connections; it keeps 63 bytes.
func (s *settings) application() string {
	name := "millrace " + s.slot
	return name[:min(len(name), 63)]
}

// A session is an ordinary connection for queries and COPY.
type session struct {
	*pgconn.PgConn
	s       *settings
	version int // 150018 is 15.18
}

func (s *settings) open(ctx context.Context, files connectors.Files) (*session, error) {
	cfg, err := s.config(false)
	if err != nil {
		return nil, err
	}
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		return pgproto3.NewFrontend(bufio.NewReaderSize(r, readBuffer), w)
	}
	conn, err := s.dial(ctx, files, cfg)
	if err != nil {
		return nil, s.classify(err, s.connecting())
	}
	c := &session{PgConn: conn, s: s}
	rows, err := c.query(ctx, "SHOW server_version_num")
	if err == nil {
		c.version, err = strconv.Atoi(rows[0][0].text)
	}
	if err == nil {
		_, err = c.query(ctx, lasting(c.version))
	}
	for _, sql := range s.initial {
		if err == nil {
			_, err = c.query(ctx, sql)
		}
	}
	if err != nil {
		c.close()
		return nil, s.classify(err, "begin a session")
	}
	return c, nil
}

// lasting takes off a session what administrators limit for all: ours may rest for as long as nothing changes its tables' shapes, and a
// snapshot takes the time that it takes.
func lasting(version int) string {
	sql := "SET idle_in_transaction_session_timeout = 0"
	if version >= 140000 {
		sql += "; SET idle_session_timeout = 0"
	}
	if version >= 170000 {
		sql += "; SET transaction_timeout = 0"
	}
	return sql
}

func (s *settings) connecting() string {
	return fmt.Sprintf("connect to database %q on %s as %q", s.database, net.JoinHostPort(s.host, strconv.Itoa(s.port)), s.user)
}

func (c *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_ = c.Close(ctx)
}

// A field is one field of a result: text, or null.
type field struct {
	text string
	null bool
}

// query runs statements, the results of the last of which it returns, all read,
// within database.query.timeout.ms.
func (c *session) query(ctx context.Context, sql string) ([][]field, error) {
	if c.s.queryTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.s.queryTimeout)
		defer cancel()
	}
	return readRows(c.Exec(ctx, sql))
}

// ask runs one statement with texts as its parameters, within the same time.
func (c *session) ask(ctx context.Context, sql string, args [][]byte) ([][]field, error) {
	if c.s.queryTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.s.queryTimeout)
		defer cancel()
	}
	res := c.ExecParams(ctx, sql, args, nil, nil, nil).Read()
	if res.Err != nil {
		return nil, res.Err
	}
	return texts(nil, res.Rows), nil
}

// texts adds rows of a result in the text format.
func texts(to [][]field, rows [][][]byte) [][]field {
	for _, row := range rows {
		fs := make([]field, len(row))
		for i, b := range row {
			fs[i] = field{string(b), b == nil}
		}
		to = append(to, fs)
	}
	return to
}

func readRows(mrr *pgconn.MultiResultReader) ([][]field, error) {
	results, err := mrr.ReadAll()
	if err != nil {
		return nil, err
	}
	var out [][]field
	for _, r := range results {
		if r.Err != nil {
			return nil, r.Err
		}
		out = texts(nil, r.Rows)
	}
	return out, nil
}

// A replConn is a connection that streams changes. Its methods belong to one
// goroutine, but for interrupt.
type replConn struct {
	net   net.Conn
	front *pgproto3.Frontend
	paced *pacedReader
	buf   *bufio.Reader
	out   []byte
	timeo time.Duration // wal_sender_timeout; 0: none
	pid   string        // of the server's process

	deadline time.Time // of reads, as last set
	ended    atomic.Bool
}

// openReplication connects for commands of the replication protocol.
func (s *settings) openReplication(ctx context.Context, files connectors.Files) (*pgconn.PgConn, *replConn, error) {
	cfg, err := s.config(true)
	if err != nil {
		return nil, nil, err
	}
	rc := &replConn{}
	cfg.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		rc.paced = &pacedReader{r: r}
		rc.buf = bufio.NewReaderSize(rc.paced, readBuffer)
		rc.front = pgproto3.NewFrontend(rc.buf, w)
		return rc.front
	}
	conn, err := s.dial(ctx, files, cfg)
	if err != nil {
		return nil, nil, s.classify(err, s.connecting()+" for replication")
	}
	return conn, rc, nil
}

// stream takes the connection over once START_REPLICATION is under way.
func (rc *replConn) stream(ctx context.Context, conn *pgconn.PgConn, sql string) error {
	if rows, err := readRows(conn.Exec(ctx, "SHOW wal_sender_timeout")); err == nil && len(rows) == 1 {
		rc.timeo = parseTimeout(rows[0][0].text)
	}
	conn.Frontend().SendQuery(&pgproto3.Query{String: sql})
	if err := conn.Frontend().Flush(); err != nil {
		return err
	}
	for {
		msg, err := conn.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		switch m := msg.(type) {
		case *pgproto3.ErrorResponse:
			return pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyBothResponse:
			hc, err := conn.Hijack()
			if err != nil {
				return err
			}
			rc.net, rc.front, rc.pid = hc.Conn, hc.Frontend, strconv.FormatUint(uint64(hc.PID), 10)
			return nil
		}
	}
}

// parseTimeout reads 1min, 30s, 500ms, 0.
func parseTimeout(s string) time.Duration {
	if d, err := time.ParseDuration(strings.Replace(s, "min", "m", 1)); err == nil {
		return d
	}
	return time.Minute
}

// interrupt makes a blocked or coming receive fail at once, for good.
func (rc *replConn) interrupt() {
	rc.ended.Store(true)
	_ = rc.net.SetDeadline(time.Unix(1, 0))
}

// buffered reports whether a receive would be answered without the network.
func (rc *replConn) buffered() bool { return rc.buf.Buffered()+rc.front.ReadBufferLen() > 0 }

var errIdle = errors.New("nothing came before the deadline")

// receive returns the payload of the next CopyData, valid until the next receive;
// errIdle when nothing came until the deadline.
func (rc *replConn) receive(deadline time.Time) ([]byte, error) {
	if deadline != rc.deadline {
		rc.deadline = deadline
		if err := rc.net.SetReadDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if rc.ended.Load() { // after the deadline is set: see interrupt
		return nil, net.ErrClosed
	}
	for {
		msg, err := rc.front.Receive()
		if err != nil {
			var ne net.Error
			if errors.As(err, &ne) && ne.Timeout() && !rc.ended.Load() {
				return nil, errIdle
			}
			return nil, err
		}
		switch m := msg.(type) {
		case *pgproto3.CopyData:
			return m.Data, nil
		case *pgproto3.ErrorResponse:
			return nil, pgconn.ErrorResponseToPgError(m)
		case *pgproto3.CopyDone:
			return nil, io.EOF // the server ends the stream
		}
	}
}

const pgEpoch = 946_684_800_000_000 // 2000-01-01 in microseconds since 1970

// report tells the server what was received and what is confirmed. With ask it wants an
// answer.
func (rc *replConn) report(received, confirmed uint64, ask bool) error {
	b := append(rc.out[:0], 'd', 0, 0, 0, 0, pglogrepl.StandbyStatusUpdateByteID)
	b = binary.BigEndian.AppendUint64(b, max(received, confirmed))
	b = binary.BigEndian.AppendUint64(b, confirmed)
	b = binary.BigEndian.AppendUint64(b, confirmed)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().UnixMicro()-pgEpoch))
	b = append(b, 0)
	if ask {
		b[len(b)-1] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-1))
	rc.out = b
	if err := rc.net.SetWriteDeadline(time.Now().Add(connectTimeout)); err != nil {
		return err
	}
	if rc.ended.Load() {
		return net.ErrClosed
	}
	_, err := rc.net.Write(b)
	return err
}

// close ends the connection in good order where the server still listens.
func (rc *replConn) close() {
	if !rc.ended.Load() {
		_ = rc.net.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = rc.net.Write([]byte{'c', 0, 0, 0, 4, 'X', 0, 0, 0, 4})
	}
	_ = rc.net.Close()
}

// A pacedReader reads less often while much comes. The server sends each row by
// itself: 115,000 reads for 500,000 rows, each waking us on a core that the server
// needs. After some short reads in close succession it lets the socket fill for half
// a millisecond; whoever is fast gets faster by it, and a row that comes alone is not
// delayed.
type pacedReader struct {
	r    io.Reader
	run  int  // short reads in close succession
	full bool // the last read filled its buffer: the next has much to take already
}

const (
	shortRead = 32 << 10
	pace      = 500 * time.Microsecond
	closeBy   = time.Millisecond
	patience  = 8 // such reads before the first pause
)

// busy reports whether much comes.
func (p *pacedReader) busy() bool { return p.run >= patience }

func (p *pacedReader) Read(b []byte) (int, error) {
	if p.run >= patience && !p.full {
		time.Sleep(pace)
	}
	start := time.Now()
	n, err := p.r.Read(b)
	end := time.Now()
	p.full = n == len(b)
	if n < shortRead && p.run < patience {
		if end.Sub(start) < closeBy {
			p.run++
		} else {
			p.run = 0
		}
	} else if p.run >= patience && end.Sub(start) > closeBy {
		p.run = 0 // after the pause nothing was waiting
	}
	return n, err
}
