// The vendor boundary: memory and streams of one device. RAII only. A kernel runs only through Stream::launch with trivially
// copyable parameters, and reads step data only from device memory that those parameters point to, so that steps can be recorded.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/result.h"
#include "device/graph.h"
#include "device/kernel_id.h"

namespace quire::device {

// What a device is called. Its limits belong to the family (attention/device_family.h) and to the machine (config/machine.h).
struct DeviceProfile {
  std::string family;  // "cpu", "sm90", "gfx942", ...
  std::string name;    // "AMD EPYC ..."
};

class Device;

// Device memory with an owner and a name for the memory plan.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept { swap(other); return *this; }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  friend class Device;
  void swap(Buffer& other) noexcept { std::swap(device_, other.device_); std::swap(data_, other.data_); std::swap(bytes_, other.bytes_); std::swap(account_, other.account_); }
  Device* device_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t* account_ = nullptr;  // the device's, of this buffer's name
};

// An ordered queue of work. Runs launches (now, on the CPU), or records them into a Graph while recording.
class Stream {
 public:
  virtual ~Stream() = default;

  template <class Params>
  void launch(KernelId id, Geometry geometry, const Params& params) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= kMaxParamBytes);
    if (geometry.units <= 0) return;
    Launch launch;
    launch.id = id;
    launch.geometry = geometry;
    launch.params_bytes = sizeof(Params);
    std::memcpy(launch.params.data(), &params, sizeof(Params));
    ++num_launches_;
    if (recording_ != nullptr) {
      recording_->launches.push_back(launch);
    } else {
      run(launch);
    }
  }

  // Step inputs to the device and results back. Not allowed while recording: a graph must never own a copy of host data.
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device, std::size_t bytes) = 0;
  virtual void synchronize() = 0;

  void begin_record(Graph& graph) { QUIRE_CHECK(recording_ == nullptr) << "already recording"; recording_ = &graph; }
  void end_record() { QUIRE_CHECK(recording_ != nullptr); recording_ = nullptr; }
  [[nodiscard]] bool recording() const { return recording_ != nullptr; }
  void replay(const Graph& graph) {
    QUIRE_CHECK(recording_ == nullptr);
    for (const Launch& launch : graph.launches) run(launch);
  }
  [[nodiscard]] std::uint64_t num_launches() const { return num_launches_; }

 protected:
  virtual void run(const Launch& launch) = 0;

 private:
  Graph* recording_ = nullptr;
  std::uint64_t num_launches_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const DeviceProfile& profile() const = 0;
  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream() = 0;
  // Zeroed memory, aligned to 64 bytes or more. `what` names it in errors and is its account. kResourceExhausted when there is none.
  [[nodiscard]] Result<Buffer> allocate(std::size_t bytes, const std::string& what);
  // After start-up nothing may be allocated any more; later allocations are counted and tests expect none.
  void seal() { sealed_ = true; }
  [[nodiscard]] std::uint64_t allocations_after_seal() const { return allocations_after_seal_; }
  [[nodiscard]] std::size_t allocated_bytes() const { return allocated_bytes_; }
  // Bytes held now, by the `what` of their allocation.
  [[nodiscard]] const std::map<std::string, std::size_t>& accounts() const { return accounts_; }
  // What the last allocation that failed was for; "": none has failed.
  [[nodiscard]] const std::string& failed_account() const { return failed_account_; }
  // What the buffers held now take beyond the bytes that were asked for.
  [[nodiscard]] std::size_t rounding_bytes() const { return rounding_bytes_; }
  // Allocations take multiples of this.
  [[nodiscard]] virtual std::size_t granule() const { return 1; }

 protected:
  friend class Buffer;
  [[nodiscard]] virtual std::byte* raw_allocate(std::size_t bytes) = 0;  // nullptr when out of memory
  virtual void raw_free(std::byte* data, std::size_t bytes) = 0;

 private:
  bool sealed_ = false;
  std::uint64_t allocations_after_seal_ = 0;
  std::size_t allocated_bytes_ = 0, rounding_bytes_ = 0;
  std::string failed_account_;
  std::map<std::string, std::size_t> accounts_;  // nodes stay where they are: buffers point at them
};

}  // namespace quire::device
