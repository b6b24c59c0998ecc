// Named counters, gauges and histograms of one process and their text form for GET /metrics (Prometheus exposition 0.0.4).
// Storage is prometheus-cpp; the text is our own writer, because numbers must read as vLLM's do (le="1.0") and the order must be
// stable. Any thread may use anything here. Knows no engine words; the http room registers its own series through it.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prometheus {
class Counter;
class Gauge;
class Histogram;
}  // namespace prometheus

namespace quire::engine {

using MetricLabels = std::vector<std::pair<std::string, std::string>>;

// Handles: cheap to copy, valid as long as the registry lives. A default-made handle may only be assigned to.
class Counter {
 public:
  Counter() = default;
  void add(double by = 1.0) const;  // by >= 0
  [[nodiscard]] double value() const;

 private:
  friend class MetricsRegistry;
  explicit Counter(prometheus::Counter* cell) : cell_(cell) {}
  prometheus::Counter* cell_ = nullptr;
};

class Gauge {
 public:
  Gauge() = default;
  void set(double value) const;
  void add(double by) const;  // any sign
  [[nodiscard]] double value() const;

 private:
  friend class MetricsRegistry;
  explicit Gauge(prometheus::Gauge* cell) : cell_(cell) {}
  prometheus::Gauge* cell_ = nullptr;
};

class Histogram {
 public:
  Histogram() = default;
  void observe(double value) const;

 private:
  friend class MetricsRegistry;
  explicit Histogram(prometheus::Histogram* cell) : cell_(cell) {}
  prometheus::Histogram* cell_ = nullptr;
};

// `name` is the exposed name (counters end in _total by our own choice of name); the same name and labels give the same series.
// A malformed name or one name with two types is our own bug and ends the process. Label values may hold any bytes, but
// each new combination lives for ever: never pass a value that a client chooses.
class MetricsRegistry {
 public:
  MetricsRegistry();
  ~MetricsRegistry();
  MetricsRegistry(const MetricsRegistry&) = delete;
  MetricsRegistry& operator=(const MetricsRegistry&) = delete;

  [[nodiscard]] Counter counter(const std::string& name, const std::string& help, const MetricLabels& labels);
  [[nodiscard]] Gauge gauge(const std::string& name, const std::string& help, const MetricLabels& labels);
  // `bounds`: upper bounds, strictly ascending; +Inf is added.
  [[nodiscard]] Histogram histogram(const std::string& name, const std::string& help, const MetricLabels& labels, const std::vector<double>& bounds);

  // The whole exposition, families by name, series by labels. Content type: text/plain; version=0.0.4; charset=utf-8.
  [[nodiscard]] std::string render() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::engine
