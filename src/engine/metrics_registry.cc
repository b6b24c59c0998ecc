#include "engine/metrics_registry.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <exception>
#include <map>
#include <mutex>
#include <string_view>

#include "base/check.h"

namespace quire::engine {
namespace {

// Numbers as the Python client writes them, so that a dashboard made for vLLM finds le="1.0" and le="1e+06".
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  std::array<char, 400> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed).ptr;
  std::string text(buffer.data(), end);
  std::size_t dot = text.find('.');
  if (dot == std::string::npos) {
    dot = text.size();
    text += ".0";
  }
  if (value <= 0 || dot <= 6) return text;
  std::string mantissa = text.substr(0, 1) + "." + text.substr(1, dot - 1) + text.substr(dot + 1);
  mantissa.erase(mantissa.find_last_not_of('0') + 1);
  if (mantissa.back() == '.') mantissa.pop_back();
  const std::string exponent = std::to_string(dot - 1);
  return mantissa + (exponent.size() < 2 ? "e+0" : "e+") + exponent;
}

void append_escaped(std::string& out, std::string_view text, bool quotes) {
  for (const char c : text) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && quotes)
      out += "\\\"";
    else
      out += c;
  }
}

using LabelList = std::vector<prometheus::ClientMetric::Label>;

void append_sample(std::string& out, const std::string& name, std::string_view suffix, const LabelList& labels, std::string_view le, double value) {
  out += name;
  out += suffix;
  char separator = '{';
  for (const auto& label : labels) {
    out += separator;
    out += label.name;
    out += "=\"";
    append_escaped(out, label.value, true);
    out += '"';
    separator = ',';
  }
  if (!le.empty()) {
    out += separator;
    out += "le=\"";
    out += le;
    out += '"';
    separator = ',';
  }
  if (separator == ',') out += '}';
  out += ' ';
  out += number_text(value);
  out += '\n';
}

void append_family(std::string& out, prometheus::MetricFamily& family) {
  const auto type = family.type;
  const char* type_name = type == prometheus::MetricType::Counter ? "counter" : type == prometheus::MetricType::Gauge ? "gauge" : "histogram";
  out += "# HELP " + family.name + " ";
  append_escaped(out, family.help, false);
  out += "\n# TYPE " + family.name + " " + type_name + "\n";
  std::sort(family.metric.begin(), family.metric.end(), [](const auto& a, const auto& b) { return a.label < b.label; });
  for (const auto& metric : family.metric) {
    if (type == prometheus::MetricType::Counter) {
      append_sample(out, family.name, "", metric.label, "", metric.counter.value);
    } else if (type == prometheus::MetricType::Gauge) {
      append_sample(out, family.name, "", metric.label, "", metric.gauge.value);
    } else {
      for (const auto& bucket : metric.histogram.bucket) {
        append_sample(out, family.name, "_bucket", metric.label, number_text(bucket.upper_bound), static_cast<double>(bucket.cumulative_count));
      }
      append_sample(out, family.name, "_count", metric.label, "", static_cast<double>(metric.histogram.sample_count));
      append_sample(out, family.name, "_sum", metric.label, "", metric.histogram.sample_sum);
    }
  }
}

}  // namespace

void Counter::add(double by) const { cell_->Increment(by); }
double Counter::value() const { return cell_->Value(); }
void Gauge::set(double value) const { cell_->Set(value); }
void Gauge::add(double by) const { cell_->Increment(by); }
double Gauge::value() const { return cell_->Value(); }
void Histogram::observe(double value) const { cell_->Observe(value); }

struct MetricsRegistry::Impl {
  prometheus::Registry registry;

  // The library throws on malformed names and on one name with two types: both are mistakes in our own source.
  template <class Build, class... Extra>
  auto* add(Build builder, const std::string& name, const std::string& help, const MetricLabels& labels, const Extra&... extra) {
    try {
      return &builder.Name(name).Help(help).Register(registry).Add(prometheus::Labels(labels.begin(), labels.end()), extra...);
    } catch (const std::exception& problem) {
      QUIRE_CHECK(false) << "metric " << name << ": " << problem.what();
    }
    return static_cast<decltype(&builder.Register(registry).Add({}, extra...))>(nullptr);
  }
};

MetricsRegistry::MetricsRegistry() : impl_(std::make_unique<Impl>()) {}
MetricsRegistry::~MetricsRegistry() = default;

Counter MetricsRegistry::counter(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return Counter(impl_->add(prometheus::BuildCounter(), name, help, labels));
}

Gauge MetricsRegistry::gauge(const std::string& name, const std::string& help, const MetricLabels& labels) {
  return Gauge(impl_->add(prometheus::BuildGauge(), name, help, labels));
}

Histogram MetricsRegistry::histogram(const std::string& name, const std::string& help, const MetricLabels& labels,
                                     const std::vector<double>& bounds) {
  for (std::size_t i = 1; i < bounds.size(); ++i) QUIRE_CHECK_LT(bounds[i - 1], bounds[i]) << name;
  return Histogram(impl_->add(prometheus::BuildHistogram(), name, help, labels, bounds));
}

std::string MetricsRegistry::render() const {
  std::vector<prometheus::MetricFamily> families = impl_->registry.Collect();
  std::sort(families.begin(), families.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  std::string out;
  for (auto& family : families) append_family(out, family);
  return out;
}

}  // namespace quire::engine
