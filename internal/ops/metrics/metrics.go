// Package metrics serves the bot's counters in the Prometheus format. Values are read only at a scrape, so that
// counting costs nothing. Callers choose the counters and check the permission. It is the only importer of Prometheus'
// client library.
package metrics

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"ravenbot/internal/ops/measure"
)

// Sample is one value. Samples with the same Name have the same Help and the same label names.
type Sample struct {
	Name      string // with its unit, such as ravenbot_store_bytes
	Help      string
	IsCounter bool // the value only grows while the process lives
	Value     float64
	Labels    []string     // name, value, name, value
	Times     *measure.Sum // the value is a histogram of seconds; nil: it is Value
}

// Handler returns a handler that serves the samples that read returns, and those of the process and of Go's runtime.
// read may be called concurrently.
func Handler(read func() []Sample) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collector(read),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	// A scrape reads the store; four at a time are plenty and keep a busy scraper from slowing the bot.
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

type collector func() []Sample

// Describe describes nothing in advance: the labels may change. That makes the collector an unchecked one.
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the current samples.
func (read collector) Collect(out chan<- prometheus.Metric) {
	for _, s := range read() {
		var names, values []string
		for pair := range slices.Chunk(s.Labels, 2) {
			names, values = append(names, pair[0]), append(values, pair[1])
		}
		desc := prometheus.NewDesc(s.Name, s.Help, names, nil)
		if s.Times != nil {
			within := map[float64]uint64{}
			for i, bound := range measure.Bounds {
				within[bound] = s.Times.Within[i]
			}
			out <- prometheus.MustNewConstHistogram(desc, s.Times.Count, s.Times.Seconds, within, values...)
			continue
		}
		kind := prometheus.GaugeValue
		if s.IsCounter {
			kind = prometheus.CounterValue
		}
		out <- prometheus.MustNewConstMetric(desc, kind, s.Value, values...)
	}
}
