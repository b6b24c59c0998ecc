// Random-looking weights that are a pure function of (seed, parameter name, element index), built from integer arithmetic and
// single roundings alone, so that they are the same bits on every machine and in every order of reads.
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>
#include <thread>

#include "base/fp8_scale.h"
#include "model/checkpoint.h"

namespace quire::model {
namespace {

// SplitMix64's finaliser: every input bit reaches every output bit.
constexpr std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// FNV-1a over the name, then mixed with the seed.
constexpr std::uint64_t stream_key(std::uint64_t seed, std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mix(h ^ mix(seed + 0x9e3779b97f4a7c15u));
}

// Sum of four uniform 16-bit integers, centred: bell-shaped, bounded by 3.5 standard deviations, exact.
constexpr std::int32_t bell(std::uint64_t bits) {
  constexpr std::int32_t kMean = 131070;  // 4 * 65535 / 2
  return static_cast<std::int32_t>((bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48)) - kMean;
}

constexpr double kBellDeviation = 37837.22723720648;  // sqrt(4 * (2^32 - 1) / 12)
constexpr double kWeightScale = 0.02 / kBellDeviation;

// A quantised weight: the widest element is FP8's largest number, and the scales (a quarter up or down) bring the deviation back to 0.02.
constexpr double kFp8Scale = fp8::kLargestE4m3 / 131070.0;  // of the bell
constexpr double kWeightScaleMean = kWeightScale / kFp8Scale;
constexpr double kInputScaleMean = 0.05;                      // reaches 22
constexpr double kScaleSpread = 0.25 / 131070.0;              // of the bell, relative to the mean

bool is_norm(std::string_view name) { return name.ends_with("norm.weight"); }

// element = centre + width * bell
struct Distribution {
  double centre, width;
};

Distribution distribution_of(const ParameterSpec& p, double norm_centre) {
  switch (p.kind) {
    case ParameterKind::kFloat: return {is_norm(p.name) ? norm_centre : 0.0, kWeightScale};
    case ParameterKind::kFp8: return {0.0, kFp8Scale};
    case ParameterKind::kWeightScale: return {kWeightScaleMean, kWeightScaleMean * kScaleSpread};
    case ParameterKind::kInputScale: return {kInputScaleMean, kInputScaleMean * kScaleSpread};
  }
  return {};
}

template <class Store>
void fill(std::uint64_t key, const Distribution& of, std::size_t count, Store store) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = mix(key + (i + 1) * 0x9e3779b97f4a7c15u);
    store(i, static_cast<float>(of.centre + static_cast<double>(bell(bits)) * of.width));
  }
}

class DummyWeights final : public WeightSource {
 public:
  DummyWeights(const ModelSpec& spec, std::uint64_t seed) : dtype_(spec.dtype), norm_centre_(1.0 - spec.norm_weight_offset), seed_(seed) {}

  Result<Raw> read(const ParameterSpec& parameter) override {
    std::size_t count = 1;
    for (const std::int64_t length : parameter.shape) count *= static_cast<std::size_t>(length);
    const DType dtype = parameter.kind == ParameterKind::kFloat ? dtype_ : parameter.kind == ParameterKind::kFp8 ? DType::kFp8E4m3 : DType::kF32;
    std::vector<std::byte>& buffer = buffer_of_this_thread();
    buffer.resize(count * dtype_bytes(dtype));
    const std::uint64_t key = stream_key(seed_, parameter.name);
    const Distribution of = distribution_of(parameter, norm_centre_);
    std::byte* const out = buffer.data();
    switch (dtype) {
      case DType::kF32: fill(key, of, count, [out](std::size_t i, float x) { std::memcpy(out + 4 * i, &x, 4); }); break;
      case DType::kF16:
        fill(key, of, count, [out](std::size_t i, float x) {
          const Float16 h = to_float16(x);
          std::memcpy(out + 2 * i, &h, 2);
        });
        break;
      case DType::kBF16:
        fill(key, of, count, [out](std::size_t i, float x) {
          const BFloat16 h = to_bfloat16(x);
          std::memcpy(out + 2 * i, &h, 2);
        });
        break;
      case DType::kFp8E4m3: fill(key, of, count, [out](std::size_t i, float x) { out[i] = std::byte{to_fp8<Fp8E4m3>(x).bits}; }); break;
      case DType::kFp8E4m3Fnuz:
      case DType::kFp8E5m2:
      case DType::kI32:
      case DType::kI64:
      case DType::kU8: QUIRE_CHECK(false) << "no dummy weights of " << dtype_name(dtype);
    }
    return Raw{dtype, buffer};
  }

 private:
  std::vector<std::byte>& buffer_of_this_thread() {
    const std::lock_guard lock(mutex_);
    return buffers_[std::this_thread::get_id()];  // map nodes stay where they are
  }

  DType dtype_;
  double norm_centre_;
  std::uint64_t seed_;
  std::mutex mutex_;
  std::map<std::thread::id, std::vector<std::byte>> buffers_;
};

}  // namespace

std::unique_ptr<WeightSource> dummy_weights(const ModelSpec& spec, std::uint64_t seed) { return std::make_unique<DummyWeights>(spec, seed); }

}  // namespace quire::model
