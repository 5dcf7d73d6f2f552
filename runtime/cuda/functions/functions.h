// The work of the runtime itself on a device: copies, index checks, and putting back what a refused call has written.
// Each function does the items first, first + step, ... of its work, so it runs as a kernel with any grid (functions.cu)
// and, in the tests' driver, on the host. Its parameters are words, as those of the compiler's kernels. Internal.
//
// functions.ptx.h is made from functions.cu: runtime/cuda/functions/make_ptx.sh says how.
#ifndef SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_H_
#define SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_H_

#if defined(__CUDA__) || defined(__CUDACC__)
#define SMELT_DEVICE_FUNCTION __attribute__((device)) inline
#else
#define SMELT_DEVICE_FUNCTION inline
#endif

namespace smelt::cuda::functions {

using Int = long long;  // NOLINT: without the headers of the host
static_assert(sizeof(Int) == 8);

inline constexpr int kMaxRank = 8;
// The numbers of words of each function, which its comment names. Strides are in bytes, for up to kMaxRank dims.
inline constexpr int kMoveWords = 3;                       // to, from, bytes
inline constexpr int kZeroWords = 2;                       // to, bytes
inline constexpr int kPutBackWords = 6;                    // to, from, bytes, reports, their number, their distance
inline constexpr int kCopyWords = 5 + 3 * kMaxRank;        // to, from, item bytes, elements, rank, (size, to, from)...
inline constexpr int kPutBackItemsWords = 3 + kCopyWords;  // reports, their number, their distance; those of a copy
inline constexpr int kCheckIndexWords =
    7 + 2 * kMaxRank;  // at, item, signed, elements, low, limit, rank, (size, at)...
// The words that CheckIndices reports, as kernels do.
inline constexpr Int kIndexOutOfRange = 1;

// The handles of two conditional nodes (0: there is none), an address, bytes, reports, their number, their distance. The
// first node runs if any of the bytes is not 0 and nothing is reported, else the second. The kernel is in choose.cu.
inline constexpr int kChooseWords = 7;

struct Chunk {  // NOLINT: 16 bytes that are read and written at once
  Int low, high;
} __attribute__((aligned(16)));

template <typename T>
SMELT_DEVICE_FUNCTION T* At(Int address) {
  return reinterpret_cast<T*>(address);
}

// Copies bytes between memory that does not overlap: 16 at once where both are aligned.
SMELT_DEVICE_FUNCTION void MoveBytes(Int to, Int from, Int bytes, Int first, Int step) {
  Int whole = 0;
  if (((to | from) & 15) == 0) {
    whole = bytes / 16;
    for (Int i = first; i < whole; i += step) At<Chunk>(to)[i] = At<const Chunk>(from)[i];
    whole *= 16;
  } else if (((to | from) & 3) == 0) {
    whole = bytes / 4;
    for (Int i = first; i < whole; i += step) At<int>(to)[i] = At<const int>(from)[i];
    whole *= 4;
  }
  for (Int i = whole + first; i < bytes; i += step) At<char>(to)[i] = At<const char>(from)[i];
}

SMELT_DEVICE_FUNCTION void Move(const Int* w, Int first, Int step) { MoveBytes(w[0], w[1], w[2], first, step); }

SMELT_DEVICE_FUNCTION void Zero(const Int* w, Int first, Int step) {
  Int whole = 0;
  if ((w[0] & 7) == 0) {
    whole = w[1] / 8;
    for (Int i = first; i < whole; i += step) At<Int>(w[0])[i] = 0;
    whole *= 8;
  }
  for (Int i = whole + first; i < w[1]; i += step) At<char>(w[0])[i] = 0;
}

// Returns true if any report is not 0. The words: reports, their number, their distance.
SMELT_DEVICE_FUNCTION bool IsReported(const Int* w) {
  bool reported = false;
  for (Int k = 0; k < w[1]; ++k) reported |= At<const Int>(w[0])[k * w[2]] != 0;
  return reported;
}

// Copies bytes if anything is reported.
SMELT_DEVICE_FUNCTION void PutBack(const Int* w, Int first, Int step) {
  if (IsReported(w + 3)) MoveBytes(w[0], w[1], w[2], first, step);
}

// `set` gives the handle of a conditional node its value.
template <typename Set>
SMELT_DEVICE_FUNCTION void Choose(const Int* w, const Set& set) {
  bool chosen = false;
  for (Int i = 0; i < w[3]; ++i) chosen |= At<const char>(w[2])[i] != 0;
  if (IsReported(w + 4)) chosen = false;
  if (w[0] != 0) set(w[0], chosen ? 1 : 0);
  if (w[1] != 0) set(w[1], chosen ? 0 : 1);
}

template <typename T>
SMELT_DEVICE_FUNCTION void CopyItems(const Int* w, Int first, Int step) {
  const int rank = static_cast<int>(w[4]);
  for (Int i = first; i < w[3]; i += step) {
    Int left = i, to = w[0], from = w[1];
    for (int d = rank - 1; d >= 0; --d) {
      const Int size = w[5 + 3 * d];
      Int at, next;
      if (left < (Int{1} << 32) && size < (Int{1} << 32)) {
        const auto small = static_cast<unsigned>(left);
        next = small / static_cast<unsigned>(size);
        at = small % static_cast<unsigned>(size);
      } else {
        next = left / size;
        at = left % size;
      }
      to += at * w[6 + 3 * d];
      from += at * w[7 + 3 * d];
      left = next;
    }
    *At<T>(to) = *At<const T>(from);
  }
}

// Copies the elements of one strided view to another.
SMELT_DEVICE_FUNCTION void Copy(const Int* w, Int first, Int step) {
  switch (w[2]) {
    case 1:
      return CopyItems<char>(w, first, step);
    case 2:
      return CopyItems<short>(w, first, step);  // NOLINT: 2 bytes
    case 4:
      return CopyItems<int>(w, first, step);
    case 8:
      return CopyItems<Int>(w, first, step);
    default:  // complex128: aligned to 8 bytes
      struct Two {
        Int a, b;
      };
      return CopyItems<Two>(w, first, step);
  }
}

// Does so if anything is reported.
SMELT_DEVICE_FUNCTION void PutBackItems(const Int* w, Int first, Int step) {
  if (IsReported(w)) Copy(w + 3, first, step);
}

template <typename T>
SMELT_DEVICE_FUNCTION void CheckItems(const Int* w, Int first, Int step, Int* report) {
  for (Int i = first; i < w[3]; i += step) {
    Int left = i, at = w[0];
    for (int d = static_cast<int>(w[6]) - 1; d >= 0; --d) {
      at += left % w[7 + 2 * d] * w[8 + 2 * d];
      left /= w[7 + 2 * d];
    }
    const Int index = static_cast<Int>(*At<const T>(at));
    // All threads that write here write the same.
    if (index < w[4] || index >= w[5]) *report = kIndexOutOfRange;
  }
}

// Reports an element that is not in [low, limit).
SMELT_DEVICE_FUNCTION void CheckIndices(const Int* w, Int first, Int step, Int* report) {
  switch (w[1]) {
    case 1:
      return w[2] != 0 ? CheckItems<signed char>(w, first, step, report)
                       : CheckItems<unsigned char>(w, first, step, report);
    case 2:
      return CheckItems<short>(w, first, step, report);  // NOLINT: 2 bytes
    case 4:
      return CheckItems<int>(w, first, step, report);
    default:
      return CheckItems<Int>(w, first, step, report);
  }
}

}  // namespace smelt::cuda::functions

#endif  // SMELT_RUNTIME_CUDA_FUNCTIONS_FUNCTIONS_H_
