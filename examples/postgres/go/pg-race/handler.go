// Package handler inserts rows from several goroutines at once, over four connections.
package handler

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

const (
	mostWorkers     = 20
	mostRows        = 100
	mostConnections = 4
)

// idle holds open connections, and nil for those not opened yet.
var idle = make(chan *connection, mostConnections)

func init() {
	for range mostConnections {
		idle <- nil
	}
}

func Handle(event map[string]any) any {
	workers := number(event["workers"], 4, mostWorkers)
	rows := number(event["n_per_worker"], 5, mostRows)
	prefix, ok := event["prefix"].(string)
	if !ok {
		prefix = "race"
	}
	var inserted, failed atomic.Int64
	var group sync.WaitGroup
	for worker := range workers {
		group.Add(1)
		go func() {
			defer group.Done()
			for row := range rows {
				if err := insert(fmt.Sprintf("%s-%d-%d", prefix, worker, row)); err != nil {
					fmt.Println(err)
					failed.Add(1)
				} else {
					inserted.Add(1)
				}
			}
		}()
	}
	group.Wait()
	return map[string]any{"inserted": inserted.Load(), "errors": failed.Load()}
}

func insert(title string) error {
	found := <-idle
	defer func() { idle <- found }()
	if found == nil {
		opened, err := connect()
		if err != nil {
			return err
		}
		found = opened
	}
	err := found.execute("INSERT INTO terraform_demo_table (title) VALUES (" + quoted(title) + ")")
	if err != nil {
		found.Close()
		found = nil
	}
	return err
}

// quoted returns a literal; standard_conforming_strings is on since PostgreSQL 9.1, so only quotes need escaping.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "'", "''") + "'"
}

func number(value any, fallback, most int) int {
	given, ok := value.(float64)
	if !ok || given < 0 {
		return fallback
	}
	return int(min(given, float64(most)))
}
