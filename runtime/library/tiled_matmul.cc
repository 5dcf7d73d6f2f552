#include "smelt/runtime/library/tiled_matmul.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/cpu.h"
#include "smelt/runtime/library/at_best_level.h"
#include "smelt/runtime/library/dnnl_exec.h"
#include "smelt/runtime/library/gemm.h"
#include "smelt/runtime/library/gemv.h"
#include "smelt/runtime/library/halves.h"
#include "smelt/runtime/library/matmul_problem.h"
#include "smelt/runtime/library/paired_gemm.h"

namespace smelt::library_internal {
namespace {

using dnnl::memory;

memory::desc DescOf(const Matrix& m, DType t) {
  return memory::desc({m.rows, m.cols}, DnnlType(t), {m.row_stride, m.col_stride});
}

// The layout of a dense copy of the matrix: in columns if the matrix lies so, otherwise in rows.
Matrix DenseLike(const Matrix& m) {
  const bool columns = !m.RowMajor() && m.ColMajor();
  return Matrix{m.rows, m.cols, columns ? 1 : m.cols, columns ? m.rows : 1};
}
// A dense row-major copy in float32.
void GatherRows(const Matrix& m, DType t, const char* src, float* dst) {
  const int item = ItemSize(t);
  if (m.col_stride == 1 && m.row_stride == m.cols) return ToFloats(t, src, 1, m.rows * m.cols, dst);
  for (int64_t i = 0; i < m.rows; ++i) {
    ToFloats(t, src + i * m.row_stride * item, m.col_stride, m.cols, dst + i * m.cols);
  }
}
// The same, as DenseLike.
void Gather(const Matrix& m, DType t, const char* src, float* dst) {
  GatherRows(DenseLike(m).col_stride == 1 ? m : m.Transposed(), t, src, dst);
}
// A dense row-major copy of the same dtype.
void Dense(const Matrix& m, DType t, const char* src, char* dst) {
  const int64_t sizes[] = {m.rows, m.cols}, strides[] = {m.row_stride, m.col_stride}, dense[] = {m.cols, 1};
  CopyStrided(dst, dense, src, strides, sizes, ItemSize(t));
}

class TiledMatmul : public PreparedOp {
 public:
  struct Tile {
    int64_t m0, m, n0, n;
    int primitive;
  };

  // `dense` says whether c is dense.
  static MakeResult Make(MatmulProblem p, bool dense, PackedWeights* packed) {
    auto op = std::unique_ptr<TiledMatmul>(new TiledMatmul());
    op->p_ = std::move(p);
    SMELT_RETURN_IF_ERROR(op->Plan(packed));
    if (dense) op->TellOfRows();
    return std::unique_ptr<PreparedOp>(std::move(op));
  }

  absl::Status Run(const LibraryContext& context, absl::Span<char* const> inputs,
                   absl::Span<char* const> outputs) const override {
    const char* a = inputs[p_.swapped ? 1 : 0];
    const char* b = inputs[p_.swapped ? 0 : 1];
    const char* bias = p_.has_bias ? inputs[2] : nullptr;
    char* c = outputs[0];
    const int item = ItemSize(p_.dtype), out_item = ItemSize(p_.out_dtype);
    std::atomic<bool> failed = false;
    const int64_t tiles = gemv_ ? gemv_tiles_ : static_cast<int64_t>(tiles_.size());
    context.For(p_.batches * tiles, [&](int64_t i) {
      const int64_t batch = i / tiles;
      const char* ab = a + p_.BatchOffset(p_.a_batch, batch) * item;
      const char* bb = b + p_.BatchOffset(p_.b_batch, batch) * item;
      char* cb = c + p_.BatchOffset(p_.c_batch, batch) * out_item;
      const char* biasb = bias == nullptr ? nullptr : bias + p_.BatchOffset(p_.bias_batch, batch) * out_item;
      bool ok = true;
      if (gemv_) {
        ok = RunGemv(i % tiles, ab, bb, cb, biasb);
      } else if (form_ == Form::kPanels) {
        RunPanels(tiles_[i % tiles], ab, cb, biasb);
      } else if (form_ == Form::kHalfPanels) {
        RunHalfPanels(tiles_[i % tiles], ab, cb, biasb);
      } else if (few_of_blocks_) {
        RunFewOfBlocks(tiles_[i % tiles], ab, cb, biasb);
      } else {
        ok = RunTile(tiles_[i % tiles], ab, bb, cb, biasb);
      }
      if (!ok) failed.store(true, std::memory_order_relaxed);
      if (!ok || part_unit_ == 0 || context.listener == nullptr) return;
      const Tile& t = tiles_[i % tiles];
      const int64_t begin = p_.BatchOffset(p_.c_batch, batch) + t.m0 * p_.n;
      context.listener->OnPart(begin, begin + t.m * p_.n);
    });
    return failed ? absl::ResourceExhaustedError("matmul: the library failed") : absl::OkStatus();
  }
  int64_t PartUnit() const override { return part_unit_; }

 private:
  // The forms in which a constant right operand is packed.
  enum class Form {
    kNone,
    kPanels,      // of float32, for GemmPacked
    kHalfPanels,  // the same of halves, which GemmPacked widens some at a time
    kBlocks,      // oneDNN's, of kBlockColumns columns, for instructions that multiply bfloat16 or bytes
  };

  absl::Status Plan(PackedWeights* packed) {
    MatmulProblem& p = p_;
    const int item = ItemSize(p.dtype);
    const bool integers = MultipliesBytes(p);
    form_ = ChooseForm();
    gemv_ = !integers && (p.m <= MostGemvRows() || (p.dtype != DType::kFloat32 && IsSmallMatmul(p))) &&
            (p.b.RowMajor() || p.b.ColMajor());
    if (gemv_) {
      // About 128 KiB of the matrix per tile, in whole vectors. If the elements of a row are adjacent, a tile has
      // enough columns that memory is read in pieces.
      gemv_columns_ = std::max<int64_t>((int64_t{128} << 10) / std::max<int64_t>(p.k * item, 1), 1);
      gemv_columns_ = (gemv_columns_ + 31) / 32 * 32;
      if (p.b.RowMajor()) gemv_columns_ = std::max(gemv_columns_, kGemvColumns);
      gemv_tiles_ = (p.n + gemv_columns_ - 1) / gemv_columns_;
      return absl::OkStatus();
    }
    if (form_ == Form::kPanels || form_ == Form::kHalfPanels) return PlanPanels(packed);
    if (form_ == Form::kBlocks) SMELT_RETURN_IF_ERROR(PackBlocks(packed));
    // oneDNN needs AVX-512 for bfloat16 and lacks float16 on a CPU. Such products are then computed in float32 and
    // rounded once. So are sums of an odd number of products of bfloat16: oneDNN multiplies the last factor once more,
    // by the zero that pads the other operand, and infinity becomes NaN.
    own_ = !HasOnednn();
    paired_ = own_ && HasPairedGemm(p.dtype);
    native_ = p.dtype == DType::kFloat32 || integers || paired_ || form_ == Form::kBlocks ||
              (!own_ && p.dtype == DType::kBFloat16 && p.k % 2 == 0 && CpuHas("avx512bw") && CpuHas("avx512vl"));
    // oneDNN asks for memory late: one or two rows take longer than their weights take to come.
    few_of_blocks_ = form_ == Form::kBlocks && p.m <= 2 && p.dtype == DType::kBFloat16;
    flips_ = form_ == Form::kBlocks && p.dtype == DType::kInt8 && !ReadsBlocks(DType::kInt8);
    compute_ = flips_ ? DType::kUInt8 : native_ ? p.dtype : DType::kFloat32;
    compute_b_ = native_ ? p.b_dtype : DType::kFloat32;
    dense_a_ = !native_ || !(p.a.RowMajor() || p.a.ColMajor());
    dense_b_ = !native_ || !(p.b.RowMajor() || p.b.ColMajor());
    // oneDNN multiplies blocks by dense rows only, and writes dense results.
    if (form_ == Form::kBlocks) dense_a_ = flips_ || !p.a.RowMajor() || p.a.row_stride != p.k;
    // A bias that is one row is passed along; any other bias is added to the result. So is everything that must be
    // scaled.
    const bool plain = p.alpha == 1 && p.beta == 1;
    library_bias_ = p.has_bias && plain && native_ && !own_ && !few_of_blocks_ && p.bias_row == 0 && p.bias_col == 1;
    after_ = (p.has_bias && !library_bias_) || p.alpha != 1;
    result_ = native_ && !after_ && !(paired_ && IsHalf(p.out_dtype)) ? p.out_dtype : DType::kFloat32;
    dense_c_ = result_ != p.out_dtype || !p.c.RowMajor();
    // The parts are whole rows where there are enough, since oneDNN's best implementation wants whole rows of the
    // result, and 64 rows where there are 128: each tile reads all of b. Blocks are read faster than memory gives 64
    // rows more.
    constexpr int64_t kFewRows = 64;
    const int64_t parts = form_ == Form::kBlocks && p.m < kFewRows ? BlockParts() : Parts(p.m);
    int64_t m_step = p.m, n_step = p.n;
    if (p.m >= kFewRows && (parts > 1 || p.m > RowsInCache())) {
      const int64_t least = p.m >= 4 * kFewRows && form_ == Form::kBlocks ? 2 * kFewRows : p.m >= 128 ? 64 : 32;
      m_step = std::max<int64_t>(((p.m + parts - 1) / parts + 15) / 16 * 16, least);
      m_step = std::min(m_step, RowsInCache());
    } else if (parts > 1) {
      n_step = ((p.n + parts - 1) / parts + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
    }
    if (form_ == Form::kBlocks) dense_c_ = dense_c_ || (p.m > 1 && (n_step < p.n || p.c.row_stride != p.n));
    if (!native_) m_step = p.m, n_step = p.n;
    if (!native_ && own_ && parts > 1) {
      // Each tile converts the parts of both operands that it reads: all of the smaller one.
      constexpr int64_t kConverted = 64 << 10;  // elements
      int64_t& step = p.n >= p.m ? n_step : m_step;
      step = std::max<int64_t>(std::min((step + parts - 1) / parts, kConverted / p.k), 1);
      step = (step + 63) / 64 * 64;
    }
    for (int64_t m0 = 0; m0 < p.m; m0 += m_step) {
      for (int64_t n0 = 0; n0 < p.n; n0 += n_step) {
        Tile t;
        t.m0 = m0;
        t.n0 = n0;
        t.m = std::min(m_step, p.m - m0);
        t.n = std::min(n_step, p.n - n0);
        if (!own_ && !few_of_blocks_) SMELT_RETURN_IF_ERROR(MakePrimitive(t));
        tiles_.push_back(t);
      }
    }
    return absl::OkStatus();
  }

  // The rows of the result that the next step finds in the second cache; at least as many as b has, because each tile
  // reads b.
  int64_t RowsInCache() const {
    constexpr int64_t kCache = 256 << 10;
    const int64_t rows = std::max(kCache / std::max<int64_t>(p_.n * ItemSize(p_.out_dtype), 1), p_.k);
    return std::max<int64_t>((rows + 15) / 16 * 16, 64);
  }

  // Tiles of whole rows of a dense result are contiguous.
  void TellOfRows() {
    const bool rows = std::all_of(tiles_.begin(), tiles_.end(), [&](const Tile& t) { return t.n == p_.n; });
    if (!gemv_ && rows && !p_.swapped && p_.c.RowMajor() && p_.c.row_stride == p_.n) part_unit_ = p_.n;
  }

  // The number of tiles, by the work of the product: about 8 million multiplications each, at most 64 tiles.
  int64_t Parts(int64_t rows) const {
    if (p_.batches > 16) return 1;
    const double work = static_cast<double>(rows) * static_cast<double>(p_.n) * static_cast<double>(p_.k);
    return static_cast<int64_t>(std::min(64.0, std::max(1.0, work / 8e6)));
  }

  // Up to this many rows, the matrix is read in place, a few rows at a time. The library copies it first, which takes
  // it longer for so few rows if the matrix lies by columns, or fits the second cache but not the first.
  int64_t MostGemvRows() const {
    constexpr int64_t kLongColumn = 512, kFewCopied = int64_t{1} << 17, kMostCopied = int64_t{1} << 18;
    // Packed weights are faster for more rows together, but a panel of few long columns consists mostly of padding.
    const bool thin = p_.b.ColMajor() && p_.n <= kPanelColumns / 4 && p_.k >= 8 * kLongColumn;
    if (form_ != Form::kNone && !thin) return p_.b_serves_all_rows && p_.n >= kPanelColumns / 2 ? 0 : 2;
    if (p_.dtype != DType::kFloat32) return kGemvRows;
    if (p_.b.ColMajor() && p_.k >= kLongColumn) return 3 * kGemvRows;
    const int64_t elements = p_.k * p_.n;
    return p_.b.RowMajor() && elements >= kFewCopied && elements <= kMostCopied ? 2 * kGemvRows : kGemvRows;
  }

  // One packed form serves products of any number of rows. With few rows, weights come from memory as they are used,
  // which takes the library longer than the arithmetic; with many, it is no faster.
  Form ChooseForm() const {
    if (p_.b_constant == nullptr) return Form::kNone;
    if (MultipliesBytes(p_)) return ReadsBlocks(DType::kUInt8) ? Form::kBlocks : Form::kNone;
    if (!p_.c.RowMajor()) return Form::kNone;
    if (p_.dtype == DType::kFloat32) return Form::kPanels;
    if (p_.dtype == DType::kBFloat16) {
      if (p_.k % 2 == 0 && ReadsBlocks(DType::kBFloat16)) return Form::kBlocks;
      if (HasPairedGemm(DType::kBFloat16)) return Form::kNone;
    }
    return Form::kHalfPanels;
  }

  // Returns whether oneDNN multiplies rows of the dtype by blocks on this machine. It has code that reads them for
  // machines with instructions for the dtype, and loops for all others. Rows of int8 take AMX.
  static bool ReadsBlocks(DType t) {
    const auto reads = [](DType t) {
      if (!HasOnednn()) return false;
      const auto made = TryMakeDnnl([&] {
        const bool bytes = t != DType::kBFloat16;
        const memory::desc rows({64, 64}, DnnlType(t), memory::format_tag::ab);
        const memory::desc result({64, 64}, DnnlType(bytes ? DType::kInt32 : t), memory::format_tag::ab);
        const dnnl::matmul::desc d(rows, BlocksDesc(64, 64, bytes ? DType::kInt8 : t), result);
        return absl::StartsWith(dnnl::matmul::primitive_desc(d, UserScratchpad(), CpuEngine()).impl_info_str(), "brg");
      });
      return made && *made;
    };
    static const bool kBFloat16 = reads(DType::kBFloat16), kUInt8 = reads(DType::kUInt8), kInt8 = reads(DType::kInt8);
    return t == DType::kBFloat16 ? kBFloat16 : t == DType::kUInt8 ? kUInt8 : kInt8;
  }
  // The layout of blocks: the elements of a column that lie together fill 32 bits.
  static memory::desc BlocksDesc(int64_t k, int64_t n, DType t) {
    using Tag = memory::format_tag;
    return memory::desc({k, n}, DnnlType(t), t == DType::kBFloat16 ? Tag::BA16a64b2a : Tag::BA16a64b4a);
  }
  // Bytes of blocks of `n` columns.
  int64_t BlockBytes(int64_t n) const {
    const int64_t line = 64;  // bytes of a column that lie in one piece of a block
    return (p_.k * ItemSize(p_.b_dtype) + line - 1) / line * line * ((n + kBlockColumns - 1) / kBlockColumns) *
           kBlockColumns;
  }
  // The parts of a product of few rows. Each takes about as long as its weights take to come from memory.
  int64_t BlockParts() const { return std::clamp<int64_t>(BlockBytes(p_.n) >> 19, 1, 32); }

  // Returns the constant right operand in a layout of that name. `pack(n0, n, from, to)` packs columns [n0, n0 + n), whose
  // first element is at `from`; it returns false if it cannot. The memory of columns that lie one after the other is
  // released as they are packed: it is never resident as a whole together with the packed form.
  template <typename F>
  absl::StatusOr<std::shared_ptr<const char>> GetPacked(PackedWeights* packed, absl::string_view layout, int64_t bytes,
                                                        const F& pack) const {
    constexpr int64_t kColumns = 4 * kPanelColumns;
    const int64_t item = ItemSize(p_.b_dtype), row = p_.b.row_stride, column = p_.b.col_stride;
    const std::string name =
        absl::StrCat(p_.k, "x", p_.n, " by ", row, ",", column, " ", Name(p_.b_dtype), " in ", layout);
    const auto source = [&](const char* from, int64_t n) {
      return PackedWeights::SourceOf(from, {p_.k, n}, {row, column}, item);
    };
    return packed->Get(source(p_.b_constant, p_.n), name, bytes, [&](char* to) {
      for (int64_t n0 = 0; n0 < p_.n; n0 += kColumns) {
        const int64_t n = std::min(kColumns, p_.n - n0);
        const char* const from = p_.b_constant + n0 * column * item;
        if (!pack(n0, n, from, to)) return absl::InternalError("oneDNN cannot pack the weights of a matmul");
        if (p_.b.ColMajor() && n < p_.n) packed->Release(source(from, n));
      }
      return absl::OkStatus();
    });
  }

  // Behind the blocks of int8 are the sums of the columns. Rows of int8 become uint8 by an addend of 128 where there is
  // only code for those: it adds 128 times the sum.
  absl::Status PackBlocks(PackedWeights* packed) {
    const bool bytes = p_.b_dtype == DType::kInt8;
    const int64_t size = BlockBytes(p_.n);
    AlignedBuffer copy;  // oneDNN packs bytes from dense rows alone
    SMELT_ASSIGN_OR_RETURN(packed_, GetPacked(packed, "blocks", size + (bytes ? p_.n * 4 : 0),
                                              [&](int64_t n0, int64_t n, const char* from, char* to) {
                                                if (copy == nullptr)
                                                  copy = AllocateAligned(p_.k * n * ItemSize(p_.b_dtype));
                                                Dense({p_.k, n, p_.b.row_stride, p_.b.col_stride}, p_.b_dtype, from,
                                                      copy.get());
                                                if (bytes) SumColumns(n, copy.get(), to + size + n0 * 4);
                                                return PackDense(n, copy.get(), to + BlockBytes(n0));
                                              }));
    return absl::OkStatus();
  }
  bool PackDense(int64_t n, char* from, char* to) const {
    const auto packed = TryMakeDnnl([&] {
      memory src(memory::desc({p_.k, n}, DnnlType(p_.b_dtype), memory::format_tag::ab), CpuEngine(), from);
      memory dst(BlocksDesc(p_.k, n, p_.b_dtype), CpuEngine(), to);
      dnnl::reorder(src, dst).execute(ThreadStream(), src, dst);
      ThreadStream().wait();
      return true;
    });
    return packed.has_value();
  }
  void SumColumns(int64_t n, const char* dense, char* to) const {
    const auto* from = reinterpret_cast<const int8_t*>(dense);
    auto* sums = reinterpret_cast<uint32_t*>(to);
    std::fill(sums, sums + n, 0u);
    for (int64_t i = 0; i < p_.k; ++i, from += n) {
      for (int64_t j = 0; j < n; ++j) sums[j] += static_cast<uint32_t>(from[j]);
    }
  }

  // With few rows, tiles are whole panels, and only some rows each if there are too few panels. With many, they are
  // rows that stay in the second cache while all panels pass by.
  absl::Status PlanPanels(PackedWeights* packed) {
    MatmulProblem& p = p_;
    const int64_t bytes = PackedElements(p.k, p.n) * ItemSize(p.dtype);
    SMELT_ASSIGN_OR_RETURN(packed_,
                           GetPacked(packed, "panels", bytes, [&](int64_t n0, int64_t n, const char* from, char* to) {
                             const auto pack = [&](const auto* b, auto* panels) {
                               PackRight(p.k, n, b, p.b.row_stride, p.b.col_stride, panels + PackedElements(p.k, n0));
                             };
                             if (form_ == Form::kPanels) {
                               pack(reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
                             } else {
                               pack(reinterpret_cast<const uint16_t*>(from), reinterpret_cast<uint16_t*>(to));
                             }
                             return true;
                           }));
    after_ = p.has_bias || p.alpha != 1;
    // A part of a product of one or two rows takes as long as its weights take to come from memory.
    const int64_t parts = p.m > 2 ? Parts(p.m) : std::clamp<int64_t>(p.k * p.n / (int64_t{128} << 10), 1, 64);
    constexpr int64_t kFewRows = 128, kMostRows = 96, kWholeTiles = 12;  // rows of a tile: of 4 or 6
    if (p.m > kFewRows) {
      const int64_t m_step =
          std::clamp<int64_t>((p.m / parts + kWholeTiles - 1) / kWholeTiles * kWholeTiles, 48, kMostRows);
      for (int64_t m0 = 0; m0 < p.m; m0 += m_step) tiles_.push_back({m0, std::min(m_step, p.m - m0), 0, p.n, -1});
      return absl::OkStatus();
    }
    const int64_t panels = (p.n + kPanelColumns - 1) / kPanelColumns;
    const int64_t across = std::min(parts, panels), down = std::min((parts + across - 1) / across, (p.m + 23) / 24);
    const int64_t n_step = (panels + across - 1) / across * kPanelColumns, m_step = (p.m + down - 1) / down;
    for (int64_t n0 = 0; n0 < p.n; n0 += n_step) {
      for (int64_t m0 = 0; m0 < p.m; m0 += m_step) {
        tiles_.push_back({m0, std::min(m_step, p.m - m0), n0, std::min(n_step, p.n - n0), -1});
      }
    }
    return absl::OkStatus();
  }

  void RunPanels(const Tile& t, const char* a, char* c, const char* bias) const {
    const MatmulProblem& p = p_;
    const int64_t c_row = p.c.row_stride;
    float* to = reinterpret_cast<float*>(c) + t.m0 * c_row;
    GemmPacked(t.m, p.n, p.k, reinterpret_cast<const float*>(a) + t.m0 * p.a.row_stride, p.a.row_stride, p.a.col_stride,
               reinterpret_cast<const float*>(packed_.get()), to, c_row, t.n0, t.n0 + t.n);
    if (!after_) return;
    // One row for all is added in vectors.
    if (p.alpha != 1 || p.beta != 1 || p.bias_row != 0 || p.bias_col != 1)
      return FinishRows({t.m, t.n, c_row, 1}, to + t.n0, t.m0, t.n0, c, bias);
    const float* added = reinterpret_cast<const float*>(bias);
    for (int64_t i = 0; i < t.m; ++i) {
      for (int64_t j = t.n0; j < t.n0 + t.n; ++j) to[i * c_row + j] += added[j];
    }
  }

  // Some columns at a time, whose sums stay in the near caches.
  void RunHalfPanels(const Tile& t, const char* a, char* c, const char* bias) const {
    constexpr int64_t kColumns = 4 * kPanelColumns;
    const MatmulProblem& p = p_;
    auto* const rows = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kA, t.m * p.k * 4));
    GatherRows({t.m, p.k, p.a.row_stride, p.a.col_stride}, p.dtype, a + t.m0 * p.a.row_stride * ItemSize(p.dtype),
               rows);
    auto* const sums = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kC, t.m * kColumns * 4));
    for (int64_t n0 = t.n0; n0 < t.n0 + t.n; n0 += kColumns) {
      const int64_t n = std::min(kColumns, t.n0 + t.n - n0);
      GemmPackedHalves(t.m, p.n, p.k, rows, p.dtype, reinterpret_cast<const uint16_t*>(packed_.get()), sums, kColumns,
                       n0, n0 + n);
      FinishRows({t.m, n, kColumns, 1}, sums, t.m0, n0, c, bias);
    }
  }

  void RunFewOfBlocks(const Tile& t, const char* a, char* c, const char* bias) const {
    const MatmulProblem& p = p_;
    const int64_t columns = (t.n + kBlockColumns - 1) / kBlockColumns * kBlockColumns;
    auto* const rows = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kA, p.m * p.k * 4));
    GatherRows(p.a, p.dtype, a, rows);
    auto* const sums = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kC, p.m * columns * 4));
    GemvBlocks(static_cast<int>(p.m), p.k, rows, reinterpret_cast<const uint16_t*>(packed_.get() + BlockBytes(t.n0)),
               BlockBytes(1) / (2 * kBlockColumns * 2), columns, sums, columns);
    FinishRows({p.m, t.n, columns, 1}, sums, 0, t.n0, c, bias);
  }

  Matrix PlaceA(const Tile& t) const {
    const Matrix a{t.m, p_.k, p_.a.row_stride, p_.a.col_stride};
    if (form_ == Form::kBlocks) return {t.m, p_.k, p_.k, 1};
    return dense_a_ ? DenseLike(a) : a.Normalized();
  }
  Matrix PlaceB(const Tile& t) const {
    const Matrix b{p_.k, t.n, p_.b.row_stride, p_.b.col_stride};
    return dense_b_ ? DenseLike(b) : b.Normalized();
  }
  Matrix PlaceC(const Tile& t) const {
    if (dense_c_ || form_ == Form::kBlocks) return {t.m, t.n, t.n, 1};
    return Matrix{t.m, t.n, p_.c.row_stride, p_.c.col_stride}.Normalized();
  }

  struct Primitive {
    int64_t m, n;
    std::unique_ptr<DnnlExec> exec;
  };

  absl::Status MakePrimitive(Tile& t) {
    OneOmpThread one;
    t.primitive = -1;
    for (size_t i = 0; i < primitives_.size(); ++i) {
      if (primitives_[i].m == t.m && primitives_[i].n == t.n) t.primitive = static_cast<int>(i);
    }
    if (t.primitive < 0) {
      auto made = TryMakeDnnl([&] {
        const memory::desc a = DescOf(PlaceA(t), compute_), c = DescOf(PlaceC(t), result_);
        const memory::desc b =
            form_ == Form::kBlocks ? BlocksDesc(p_.k, t.n, compute_b_) : DescOf(PlaceB(t), compute_b_);
        memory::desc bias;
        if (library_bias_) bias = memory::desc({1, t.n}, DnnlType(p_.out_dtype), memory::format_tag::ab);
        const dnnl::matmul::desc d = library_bias_ ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
        const dnnl::matmul::primitive_desc pd(d, UserScratchpad(), CpuEngine());
        std::vector<DnnlExec::Arg> args = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, pd.weights_desc()}, {DNNL_ARG_DST, c}};
        if (library_bias_) args.push_back({DNNL_ARG_BIAS, bias});
        Primitive p{t.m, t.n, nullptr};
        p.exec = std::make_unique<DnnlExec>(dnnl::matmul(pd), std::move(args), pd.scratchpad_desc());
        return p;
      });
      if (!made) return absl::InternalError(absl::StrCat("oneDNN has no matmul of ", t.m, "x", p_.k, "x", t.n));
      primitives_.push_back(std::move(*made));
      t.primitive = static_cast<int>(primitives_.size()) - 1;
    }
    return absl::OkStatus();
  }

  bool RunTile(const Tile& t, const char* a, const char* b, char* c, const char* bias) const {
    const int item = ItemSize(p_.dtype), out_item = ItemSize(p_.out_dtype);
    const char* ta = a + t.m0 * p_.a.row_stride * item;
    const char* tb = b + t.n0 * p_.b.col_stride * item;
    char* tc = c + (t.m0 * p_.c.row_stride + t.n0 * p_.c.col_stride) * out_item;
    const Matrix ma{t.m, p_.k, p_.a.row_stride, p_.a.col_stride}, mb{p_.k, t.n, p_.b.row_stride, p_.b.col_stride};
    const void* pa = ta;
    const void* pb = packed_ != nullptr ? packed_.get() + BlockBytes(t.n0) : tb;
    void* pc = tc;
    const int compute_item = ItemSize(compute_);
    if (dense_a_) {
      char* to = Scratch::Get(ScratchUse::kA, t.m * p_.k * compute_item);
      native_ ? Dense(ma, p_.dtype, ta, to) : Gather(ma, p_.dtype, ta, reinterpret_cast<float*>(to));
      if (flips_) Flip(t.m * p_.k, to);
      pa = to;
    }
    if (dense_b_ && packed_ == nullptr) {
      char* to = Scratch::Get(ScratchUse::kWeights, p_.k * t.n * compute_item);  // Gemm packs into kB
      native_ ? Dense(mb, p_.dtype, tb, to) : Gather(mb, p_.dtype, tb, reinterpret_cast<float*>(to));
      pb = to;
    }
    if (dense_c_) pc = Scratch::Get(ScratchUse::kC, t.m * t.n * ItemSize(result_));
    const char* tbias = bias == nullptr ? nullptr : bias + (t.m0 * p_.bias_row + t.n0 * p_.bias_col) * out_item;
    void* handles[] = {const_cast<void*>(pa), const_cast<void*>(pb), pc, const_cast<char*>(tbias)};
    if (own_) {
      const Matrix place_a = PlaceA(t), place_b = PlaceB(t);
      const auto multiply = [&](const auto* from_a, const auto* from_b, auto* to, const auto& gemm) {
        gemm(t.m, t.n, p_.k, from_a, place_a.row_stride, place_a.col_stride, from_b, place_b.row_stride,
             place_b.col_stride, to, PlaceC(t).row_stride);
      };
      const auto paired = [](auto... operands) { PairedGemm(operands...); };
      if (compute_ == DType::kInt8) {
        multiply(static_cast<const int8_t*>(pa), static_cast<const int8_t*>(pb), static_cast<int32_t*>(pc), paired);
      } else if (paired_) {
        multiply(static_cast<const uint16_t*>(pa), static_cast<const uint16_t*>(pb), static_cast<float*>(pc), paired);
      } else {
        multiply(static_cast<const float*>(pa), static_cast<const float*>(pb), static_cast<float*>(pc),
                 [](auto... operands) { Gemm(operands...); });
      }
    } else if (!primitives_[t.primitive].exec->Run(absl::MakeSpan(handles, library_bias_ ? 4 : 3))) {
      return false;
    }
    if (flips_) TakeOffSums(t, static_cast<uint32_t*>(pc));
    if (!dense_c_ && !after_) return true;
    // Scales, adds, rounds once and stores the result in its place.
    if (!after_ && result_ == p_.out_dtype) {
      const int64_t sizes[] = {t.m, t.n}, strides[] = {p_.c.row_stride, p_.c.col_stride}, dense[] = {t.n, 1};
      CopyStrided(tc, strides, static_cast<char*>(pc), dense, sizes, out_item);
      return true;
    }
    FinishRows(PlaceC(t), static_cast<const float*>(pc), t.m0, t.n0, c, bias);
    return true;
  }

  // Adds 128 to bytes with a sign, which then have none.
  static void Flip(int64_t count, char* bytes) {
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      char* const to = bytes;  // stores of bytes may change what is captured
      const int64_t n = count;
      for (int64_t i = 0; i < n; ++i) to[i] = static_cast<char>(static_cast<uint8_t>(to[i]) ^ 0x80);
    });
  }
  // Takes off what those 128 added to the result of a tile.
  void TakeOffSums(const Tile& t, uint32_t* c) const {
    const auto* sums = reinterpret_cast<const uint32_t*>(packed_.get() + BlockBytes(p_.n)) + t.n0;
    AtBestLevel([&]() SMELT_ALWAYS_INLINE {
      for (int64_t i = 0; i < t.m; ++i) {
        for (int64_t j = 0; j < t.n; ++j) c[i * t.n + j] -= sums[j] << 7;
      }
    });
  }

  // Writes the rows of the result from row m0 and column n0 on, whose sums are a matrix at `sums`: scaled, added to,
  // rounded once and stored in their place, which may be that of the sums. `c` and `bias` are those of the whole result.
  void FinishRows(const Matrix& from, const float* sums, int64_t m0, int64_t n0, char* c, const char* bias) const {
    constexpr int64_t kChunk = 256;
    const DType t = p_.out_dtype;
    const int item = ItemSize(t);
    const float alpha = static_cast<float>(p_.alpha), beta = static_cast<float>(p_.beta);
    float row[kChunk], added[kChunk];
    for (int64_t i = m0; i < m0 + from.rows; ++i, sums += from.row_stride) {
      for (int64_t first = 0; first < from.cols; first += kChunk) {
        const int64_t count = std::min(kChunk, from.cols - first);
        const float* const values = sums + first * from.col_stride;
        if (from.col_stride == 1) {
          std::copy(values, values + count, row);
        } else {
          for (int64_t j = 0; j < count; ++j) row[j] = values[j * from.col_stride];
        }
        if (p_.alpha != 1) {
          for (int64_t j = 0; j < count; ++j) row[j] *= alpha;
        }
        if (bias != nullptr && !library_bias_) {
          ToFloats(t, bias + (i * p_.bias_row + (n0 + first) * p_.bias_col) * item, p_.bias_col, count, added);
          for (int64_t j = 0; j < count; ++j) row[j] += p_.beta == 1 ? added[j] : added[j] * beta;
        }
        FromFloats(t, row, count, c + (i * p_.c.row_stride + (n0 + first) * p_.c.col_stride) * item, p_.c.col_stride);
      }
    }
  }
  bool RunGemv(int64_t tile, const char* a, const char* b, char* c, const char* bias) const {
    const int item = ItemSize(p_.dtype);
    const int64_t begin = tile * gemv_columns_, end = std::min(p_.n, begin + gemv_columns_);
    const float* x = reinterpret_cast<const float*>(a);
    if (p_.dtype != DType::kFloat32 || p_.a.col_stride != 1 || (p_.m > 1 && p_.a.row_stride != p_.k)) {
      float* dense = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kA, p_.m * p_.k * 4));
      GatherRows(p_.a, p_.dtype, a, dense);
      x = dense;
    }
    const int m = static_cast<int>(p_.m);
    const bool direct = p_.out_dtype == DType::kFloat32 && p_.c.col_stride == 1 && !p_.has_bias && p_.alpha == 1;
    const int64_t columns = end - begin;
    float* y = direct ? reinterpret_cast<float*>(c) + begin
                      : reinterpret_cast<float*>(Scratch::Get(ScratchUse::kC, m * columns * 4));
    const int64_t ldy = direct ? p_.c.row_stride : columns;
    if (m > MostGemvRows()) {  // small, of halves
      float* w = reinterpret_cast<float*>(Scratch::Get(ScratchUse::kWeights, p_.k * columns * 4));
      const Matrix part{p_.k, columns, p_.b.row_stride, p_.b.col_stride}, lies = DenseLike(part);
      Gather(part, p_.dtype, b + begin * p_.b.col_stride * item, w);
      Gemm(m, columns, p_.k, x, p_.k, 1, w, lies.row_stride, lies.col_stride, y, ldy);
    } else if (p_.b.RowMajor()) {
      GemvPlain(m, p_.k, x, b + begin * item, p_.dtype, p_.b.row_stride, 0, columns, y, ldy);
    } else {
      GemvTransposed(m, p_.k, x, b + begin * p_.b.col_stride * item, p_.dtype, p_.b.col_stride, 0, columns, y, ldy);
    }
    if (direct) return true;
    if (!p_.has_bias && p_.alpha == 1 && columns == p_.n && p_.c.col_stride == 1 && p_.c.row_stride == columns) {
      FromFloats(p_.out_dtype, y, m * columns, c, 1);
      return true;
    }
    FinishRows({m, columns, ldy, 1}, y, 0, begin, c, bias);
    return true;
  }

  MatmulProblem p_;
  bool gemv_ = false;
  int64_t gemv_columns_ = 0, gemv_tiles_ = 0;
  int64_t part_unit_ = 0;
  bool own_ = false;     // by Gemm, as there is no oneDNN
  bool paired_ = false;  // by PairedGemm
  bool native_ = true;
  DType compute_ = DType::kFloat32;    // what the library reads of a
  DType compute_b_ = DType::kFloat32;  // and of b
  DType result_ = DType::kFloat32;     // what it writes
  bool dense_a_ = false, dense_b_ = false, dense_c_ = false;
  bool library_bias_ = false, after_ = false;
  Form form_ = Form::kNone;
  std::shared_ptr<const char> packed_;  // the constant right operand in that form
  bool flips_ = false;                  // rows of int8 become uint8
  bool few_of_blocks_ = false;          // of bfloat16, by GemvBlocks
  std::vector<Primitive> primitives_;
  std::vector<Tile> tiles_;
};

}  // namespace

MakeResult MakeTiledMatmul(MatmulProblem p, bool dense, PackedWeights* packed) {
  return TiledMatmul::Make(std::move(p), dense, packed);
}

bool HasExactInt8(const MatmulProblem& p) {
  if (p.has_bias || p.alpha != 1) return false;
  return HasOnednn() ? CpuLevel() == "x86-64-v4" && CpuHas("avx512vnni")
                     : p.dtype == DType::kInt8 && HasPairedGemm(DType::kInt8);
}

}  // namespace smelt::library_internal
