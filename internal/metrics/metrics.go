// Package metrics shows what the bot counts in the form that Prometheus reads. It
// promises that counting costs nothing here: values are asked for when somebody
// looks. What is counted, and who may look, is others' business. It is the only
// importer of Prometheus' client library.
package metrics

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Sample is one value. Those of one Name have the same Help and the same labels,
// which are given as name, value, name, value.
type Sample struct {
	Name      string // with its unit, such as ravenbot_store_bytes
	Help      string
	IsCounter bool // it only grows while the process lives
	Value     float64
	Labels    []string
}

// Handler answers with the samples that read gives, and with those of the process
// and of Go's runtime. read may be called concurrently.
func Handler(read func() []Sample) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collector(read), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

type collector func() []Sample

// Describe names nothing beforehand: which labels there are may change.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect gives the samples of this moment.
func (read collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range read() {
		kind := prometheus.GaugeValue
		if s.IsCounter {
			kind = prometheus.CounterValue
		}
		var names, values []string
		for pair := range slices.Chunk(s.Labels, 2) {
			names, values = append(names, pair[0]), append(values, pair[1])
		}
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.Name, s.Help, names, nil), kind, s.Value, values...)
	}
}
