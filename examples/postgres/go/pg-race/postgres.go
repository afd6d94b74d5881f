package handler

// The part of PostgreSQL's protocol 3 that an INSERT needs, so that the example builds without a module proxy. No TLS: in your own service,
// use github.com/jackc/pgx.

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const protocol = 196608 // 3.0

type connection struct {
	net.Conn
	scram *scram
}

// connect reads PGHOST, PGPORT, PGDATABASE, PGUSER, PGPASSWORD and PGSSLMODE.
func connect() (*connection, error) {
	host, port := variable("PGHOST", "127.0.0.1"), variable("PGPORT", "5432")
	network, address := "tcp", net.JoinHostPort(host, port)
	if strings.HasPrefix(host, "/") {
		network, address = "unix", host+"/.s.PGSQL."+port
	}
	raw, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return nil, err
	}
	found := &connection{Conn: raw}
	found.SetDeadline(time.Now().Add(10 * time.Second))
	if err := found.start(); err != nil {
		found.Close()
		return nil, err
	}
	return found, nil
}

func (c *connection) start() error {
	if mode := variable("PGSSLMODE", "disable"); mode != "disable" && mode != "allow" && mode != "prefer" {
		return fmt.Errorf("PGSSLMODE=%s is not supported here", mode)
	}
	user := variable("PGUSER", "postgres")
	head := binary.BigEndian.AppendUint32(nil, protocol)
	head = fmt.Appendf(head, "user\x00%s\x00database\x00%s\x00client_encoding\x00UTF8\x00\x00", user, variable("PGDATABASE", user))
	if err := c.send(0, head); err != nil {
		return err
	}
	return c.await()
}

// execute runs one statement without parameters.
func (c *connection) execute(statement string) error {
	c.SetDeadline(time.Now().Add(10 * time.Second))
	if err := c.send('Q', append([]byte(statement), 0)); err != nil {
		return err
	}
	return c.await()
}

// await reads until the server is ready for the next query; the error is the server's.
func (c *connection) await() error {
	var failure error
	for {
		kind, body, err := c.receive()
		if err != nil {
			return err
		}
		switch kind {
		case 'Z':
			return failure
		case 'E':
			failure = errors.New(strings.ReplaceAll(string(bytes.Trim(body, "\x00")), "\x00", " "))
		case 'R':
			if err := c.authenticate(body); err != nil {
				return err
			}
		}
		if failure != nil && kind == 'E' && bytes.Contains(body, []byte("FATAL")) {
			return failure
		}
	}
}

func (c *connection) authenticate(body []byte) error {
	switch kind := binary.BigEndian.Uint32(body); kind {
	case 0, 12:
		return nil
	case 3:
		return c.send('p', append([]byte(os.Getenv("PGPASSWORD")), 0))
	case 10:
		c.scram = newScram()
		message := append([]byte("SCRAM-SHA-256\x00"), binary.BigEndian.AppendUint32(nil, uint32(len(c.scram.first())))...)
		return c.send('p', append(message, c.scram.first()...))
	case 11:
		final, err := c.scram.final(string(body[4:]), os.Getenv("PGPASSWORD"))
		if err != nil {
			return err
		}
		return c.send('p', []byte(final))
	default:
		return fmt.Errorf("authentication method %d is not supported", kind)
	}
}

// send writes one message; kind 0 means no type byte, as in the startup message.
func (c *connection) send(kind byte, body []byte) error {
	message := binary.BigEndian.AppendUint32(nil, uint32(len(body)+4))
	if kind != 0 {
		message = append([]byte{kind}, message...)
	}
	_, err := c.Write(append(message, body...))
	return err
}

func (c *connection) receive() (byte, []byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return 0, nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err := io.ReadFull(c, body)
	return head[0], body, err
}

// scram authenticates with SCRAM-SHA-256 (RFC 7677) without channel binding.
type scram struct{ nonce string }

func newScram() *scram {
	random := make([]byte, 18)
	rand.Read(random)
	return &scram{nonce: base64.StdEncoding.EncodeToString(random)}
}

func (s *scram) bare() string  { return "n=,r=" + s.nonce }
func (s *scram) first() string { return "n,," + s.bare() }

func (s *scram) final(challenge, password string) (string, error) {
	parts := map[string]string{}
	for _, part := range strings.Split(challenge, ",") {
		name, value, _ := strings.Cut(part, "=")
		parts[name] = value
	}
	salt, err := base64.StdEncoding.DecodeString(parts["s"])
	rounds, err2 := strconv.Atoi(parts["i"])
	if err := errors.Join(err, err2); err != nil || !strings.HasPrefix(parts["r"], s.nonce) {
		return "", errors.Join(errors.New("unexpected SCRAM challenge"), err)
	}
	salted := mac([]byte(password), append(salt, 0, 0, 0, 1))
	key := bytes.Clone(salted)
	for range rounds - 1 {
		salted = mac([]byte(password), salted)
		for i := range key {
			key[i] ^= salted[i]
		}
	}
	client := mac(key, []byte("Client Key"))
	stored := sha256.Sum256(client)
	without := "c=biws,r=" + parts["r"]
	signature := mac(stored[:], []byte(s.bare()+","+challenge+","+without))
	for i := range client {
		client[i] ^= signature[i]
	}
	return without + ",p=" + base64.StdEncoding.EncodeToString(client), nil
}

func mac(key, text []byte) []byte {
	made := hmac.New(sha256.New, key)
	made.Write(text)
	return made.Sum(nil)
}

func variable(name, fallback string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return fallback
}
