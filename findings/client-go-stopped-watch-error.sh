#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A watch of k8s.io/client-go 0.36.3 that its owner stops may still bring an event of type ERROR, with the Status
# "unable to decode an event from the watch stream": Stop() closes the stream under its reader, and whether what the
# reader meets is delivered or dropped is chosen at random. Whoever drains ResultChan() after Stop(), as one has to,
# must not take an ERROR there for one of the API server's. On an idle stream that is stopped 200 times, some bring
# it and some do not.
#
# Exit status: 0 while that is so, 1 once it changed, 2 if client-go cannot be had. Needs Go and the Go module proxy.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
command -v go >/dev/null || PATH=$PATH:/usr/local/go/bin
cd "$dir"
cat >go.mod <<'MOD'
module finding

go 1.26.0

require (
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	k8s.io/client-go v0.36.3
)
MOD
cat >main.go <<'GO'
package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const event = `{"type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","resourceVersion":"1"}}}` + "\n"

func main() {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, event)
		w.(http.Flusher).Flush()
		<-r.Context().Done() // an idle stream, until the client leaves
	}))
	server.EnableHTTP2 = true // as API servers do
	server.StartTLS()
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true},
		ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		panic(err)
	}
	seen := map[string]int{}
	for range 200 {
		w, err := client.CoreV1().Pods("default").Watch(context.Background(), meta.ListOptions{})
		if err != nil {
			panic(err)
		}
		if first := <-w.ResultChan(); first.Type != watch.Added || first.Object.(*core.Pod).Name != "a" {
			panic(first)
		}
		w.Stop()
		last := "nothing"
		for e := range w.ResultChan() {
			last = string(e.Type)
			if s, ok := e.Object.(*meta.Status); ok {
				fmt.Println(s.Message)
			}
		}
		seen[last]++
	}
	fmt.Printf("after Stop: nothing %d, ERROR %d\n", seen["nothing"], seen["ERROR"])
}
GO
go mod tidy >/dev/null 2>&1 && go build -o finding . || exit 2
seen=$(./finding 2>/dev/null | sort | uniq -c | sort -rn | head -4)
printf '%s\n' "$seen"
[[ $seen == *'unable to decode an event from the watch stream'* ]] || exit 1
[[ $seen =~ nothing\ [1-9][0-9]*,\ ERROR\ [1-9] ]] || exit 1
