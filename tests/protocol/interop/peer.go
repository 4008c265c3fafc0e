// The other side of test_interop.py: hashicorp/yamux, the reference implementation, with the commands of peer.mjs.
//
// usage: peer client|server PORT
//
// It has no call that resets a stream, and after its own Close a stream cannot be relied on to be read: so `open` reads
// its echo before it closes, and `abort` is not here.
package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/yamux"
)

func say(answer map[string]interface{}) {
	line, _ := json.Marshal(answer)
	fmt.Println(string(line))
}

func serve(stream *yamux.Stream) {
	defer stream.Close()
	word := make([]byte, 5)
	if _, err := io.ReadFull(stream, word); err != nil {
		return
	}
	if string(word) == "echo:" {
		io.Copy(stream, stream)
		return
	}
	all, _ := io.ReadAll(stream)
	if string(word) == "after" {
		stream.Write(all)
	}
}

// Every stream in a goroutine of its own, so that their SYNs may leave in any order.
func open(session *yamux.Session, streams, size int) ([]string, error) {
	digests := make([]string, streams)
	errors := make(chan error, streams)
	var all sync.WaitGroup
	for number := 0; number < streams; number++ {
		all.Add(1)
		go func(number int) {
			defer all.Done()
			stream, err := session.OpenStream()
			if err != nil {
				errors <- err
				return
			}
			word := fmt.Sprintf("stream %d, ", number)
			payload := []byte(strings.Repeat(word, size/len(word)+1))[:size]
			go stream.Write(payload)
			answer := make([]byte, size)
			if _, err := io.ReadFull(stream, answer); err != nil {
				errors <- err
				return
			}
			stream.Close()
			digest := sha256.Sum256(answer)
			digests[number] = hex.EncodeToString(digest[:])
		}(number)
	}
	all.Wait()
	select {
	case err := <-errors:
		return nil, err
	default:
		return digests, nil
	}
}

func obey(session *yamux.Session, line []byte) {
	var command struct {
		Name           string
		Streams, Bytes int
	}
	json.Unmarshal(line, &command)
	var answer interface{}
	var err error
	switch command.Name {
	case "open":
		answer, err = open(session, command.Streams, command.Bytes)
	case "ping":
		rtt, failed := session.Ping()
		answer, err = rtt.Milliseconds(), failed
	case "close":
		err = session.GoAway()
		session.Close()
	}
	if err != nil {
		say(map[string]interface{}{"error": err.Error()})
	} else {
		say(map[string]interface{}{"answer": answer})
	}
}

func main() {
	connection, err := net.Dial("tcp", "127.0.0.1:"+os.Args[2])
	if err != nil {
		panic(err)
	}
	config := yamux.DefaultConfig()
	var log bytes.Buffer
	config.LogOutput = &log
	config.MaxStreamWindowSize = 1024 * 1024
	side := yamux.Server
	if os.Args[1] == "client" {
		side = yamux.Client
	}
	session, err := side(connection, config)
	if err != nil {
		panic(err)
	}
	ended := make(chan bool)
	go func() {
		defer close(ended)
		for {
			stream, err := session.AcceptStream()
			if err != nil {
				say(map[string]interface{}{"ended": err.Error(), "log": log.String()})
				return
			}
			go serve(stream)
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		go obey(session, append([]byte{}, lines.Bytes()...))
	}
	<-ended
}
