#include "smelt/bench/roofline.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#else
#include <immintrin.h>
#endif
#include <time.h>

#include <algorithm>
#include <map>
#include <vector>

#include "smelt/core/tensor/tensor.h"

namespace smelt::bench {
namespace {

bool use_cpu_time = false;

double Now() {
  timespec t;
  clock_gettime(use_cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

volatile float sink;

#if defined(__aarch64__)
void Read(const float* from, int64_t n) {
  float32x4_t s[8];
  for (auto& v : s) v = vdupq_n_f32(0);
  for (int64_t i = 0; i + 32 <= n; i += 32) {
    for (int k = 0; k < 8; ++k) s[k] = vaddq_f32(s[k], vld1q_f32(from + i + 4 * k));
  }
  for (auto& v : s) sink = vgetq_lane_f32(v, 0);
}
// Reads `reads` elements for each element that it writes. (Stores of two registers that ask for no place in the cache are
// the nearest that there is to x86-64's streaming.)
template <bool kStream>
void Copy(const float* from, int64_t reads, float* to, int64_t n) {
  for (int64_t i = 0; i + 8 <= n; i += 8) {
    float32x4_t a = vdupq_n_f32(0), b = a;
    for (int64_t r = 0; r < reads; ++r) {
      a = vaddq_f32(a, vld1q_f32(from + r * n + i));
      b = vaddq_f32(b, vld1q_f32(from + r * n + i + 4));
    }
    if (kStream) {
      asm volatile("stnp %q0, %q1, [%2]" : : "w"(a), "w"(b), "r"(to + i) : "memory");
    } else {
      vst1q_f32(to + i, a);
      vst1q_f32(to + i + 4, b);
    }
  }
}
void Fma128(int64_t n) {
  const float32x4_t x = vdupq_n_f32(0.999f), y = vdupq_n_f32(0.001f);
  float32x4_t s[12];
  for (int k = 0; k < 12; ++k) s[k] = vdupq_n_f32(static_cast<float>(k));
  for (int64_t i = 0; i < n; ++i) {
    for (auto& v : s) v = vfmaq_f32(y, v, x);
  }
  for (auto& v : s) sink = vgetq_lane_f32(v, 0);
}
double MeasureFlopsPerSecond() {
  constexpr int64_t kSteps = 1 << 16;
  return kSteps * 12.0 * 4 * 2 / MinSeconds([] { Fma128(kSteps); }, 0.2);
}
#else
__attribute__((target("avx2,fma"))) void Read(const float* from, int64_t n) {
  __m256 s[8];
  for (auto& v : s) v = _mm256_setzero_ps();
  for (int64_t i = 0; i + 64 <= n; i += 64) {
    for (int k = 0; k < 8; ++k) s[k] = _mm256_add_ps(s[k], _mm256_loadu_ps(from + i + 8 * k));
  }
  for (auto& v : s) sink = _mm256_cvtss_f32(v);
}
// Reads `reads` elements for each element that it writes.
template <bool kStream>
__attribute__((target("avx2,fma"))) void Copy(const float* from, int64_t reads, float* to, int64_t n) {
  for (int64_t i = 0; i + 16 <= n; i += 16) {
    __m256 a = _mm256_setzero_ps(), b = a;
    for (int64_t r = 0; r < reads; ++r) {
      a = _mm256_add_ps(a, _mm256_loadu_ps(from + r * n + i));
      b = _mm256_add_ps(b, _mm256_loadu_ps(from + r * n + i + 8));
    }
    if (kStream) {
      _mm256_stream_ps(to + i, a);
      _mm256_stream_ps(to + i + 8, b);
    } else {
      _mm256_storeu_ps(to + i, a);
      _mm256_storeu_ps(to + i + 8, b);
    }
  }
  if (kStream) _mm_sfence();
}

// Each accumulator is its own variable, because an array would not stay in registers. Each starts with a different
// value, because equal chains would be computed only once.
#define SMELT_EACH(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9) f(10) f(11)
__attribute__((target("avx512f"))) void Fma512(int64_t n) {
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
#define SMELT_DECLARE(k) __m512 s##k = _mm512_set1_ps(k);
#define SMELT_STEP(k) s##k = _mm512_fmadd_ps(s##k, x, y);
#define SMELT_USE(k) sink = _mm512_cvtss_f32(s##k);
  SMELT_EACH(SMELT_DECLARE)
  for (int64_t i = 0; i < n; ++i) {
    SMELT_EACH(SMELT_STEP)
  }
  SMELT_EACH(SMELT_USE)
#undef SMELT_DECLARE
#undef SMELT_STEP
#undef SMELT_USE
}
__attribute__((target("avx2,fma"))) void Fma256(int64_t n) {
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
#define SMELT_DECLARE(k) __m256 s##k = _mm256_set1_ps(k);
#define SMELT_STEP(k) s##k = _mm256_fmadd_ps(s##k, x, y);
#define SMELT_USE(k) sink = _mm256_cvtss_f32(s##k);
  SMELT_EACH(SMELT_DECLARE)
  for (int64_t i = 0; i < n; ++i) {
    SMELT_EACH(SMELT_STEP)
  }
  SMELT_EACH(SMELT_USE)
#undef SMELT_DECLARE
#undef SMELT_STEP
#undef SMELT_USE
}
#undef SMELT_EACH
double MeasureFlopsPerSecond() {
  constexpr int64_t kSteps = 1 << 16;
  if (__builtin_cpu_supports("avx512f")) return kSteps * 12.0 * 16 * 2 / MinSeconds([] { Fma512(kSteps); }, 0.2);
  return kSteps * 12.0 * 8 * 2 / MinSeconds([] { Fma256(kSteps); }, 0.2);
}
#endif

}  // namespace

void UseCpuTime() { use_cpu_time = true; }

double MinSeconds(const std::function<void()>& f, double budget) {
  return MinSecondsInTurns(f, [] {}, budget).first;
}

std::pair<double, double> MinSecondsInTurns(const std::function<void()>& f, const std::function<void()>& g,
                                            double budget) {
  for (int i = 0; i < 3; ++i) f();
  for (int i = 0; i < 3; ++i) g();
  int64_t batch = 1;
  const auto seconds = [&](const std::function<void()>& h) {
    const double start = Now();
    for (int64_t i = 0; i < batch; ++i) h();
    return Now() - start;
  };
  while (seconds(f) <= 2e-4 && batch <= (1 << 20)) batch *= 2;
  std::pair<double, double> best = {1e9, 1e9};
  double total = 0;
  for (int k = 0; total < budget || k < 5; ++k) {
    const double of_f = seconds(f), of_g = seconds(g);
    best.first = std::min(best.first, of_f / static_cast<double>(batch));
    best.second = std::min(best.second, of_g / static_cast<double>(batch));
    total += of_f + of_g;
  }
  return best;
}

double Roofline::MoveSeconds(double read_bytes, double written_bytes) {
  const auto n = static_cast<int64_t>(std::max(written_bytes, 64.0) / 4);
  const int64_t reads = std::max<int64_t>(1, static_cast<int64_t>(read_bytes / written_bytes + 0.5));
  const bool only_reads = written_bytes * 8 < read_bytes;
  static auto* const known = new std::map<std::pair<int64_t, int64_t>, double>();
  const int64_t elements = only_reads ? static_cast<int64_t>(read_bytes / 4) : n * reads;
  auto [it, fresh] = known->try_emplace({elements, only_reads ? 0 : n}, 0);
  if (!fresh) return it->second;
  const std::vector<int64_t> from_sizes = {elements}, to_sizes = {n};
  const Tensor from = Tensor::Empty(DType::kFloat32, from_sizes), to = Tensor::Empty(DType::kFloat32, to_sizes);
  std::fill_n(from.data_as<float>(), elements, 0.5f);
  std::fill_n(to.data_as<float>(), n, 0.5f);
  auto* a = from.data_as<float>();
  auto* z = to.data_as<float>();
  if (only_reads) {
    it->second = MinSeconds([&] { Read(a, elements); }, 0.3);
  } else {
    it->second = std::min(MinSeconds([&] { Copy<false>(a, reads, z, n); }, 0.3),
                          MinSeconds([&] { Copy<true>(a, reads, z, n); }, 0.3));
  }
  return it->second;
}

double Roofline::FlopsPerSecond() {
  static const double value = MeasureFlopsPerSecond();
  return value;
}

}  // namespace smelt::bench
