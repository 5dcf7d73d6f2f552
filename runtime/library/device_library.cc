#include "smelt/runtime/library/device_library.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/runtime/library/attention.h"
#include "smelt/runtime/library/convolution.h"
#include "smelt/runtime/library/matmul_problem.h"
#include "smelt/runtime/strided.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

using library_internal::ConvParams;
using library_internal::MatmulProblem;

int64_t WordOf(const void* p) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(p)); }
int64_t WordOf(double x) {
  int64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Large tiles pay off where they are full and there is one for about each multiprocessor.
bool ArePlenty(int64_t batches, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 128, kEnough = 96;
  return rows >= kTile && columns >= kTile && (rows / kTile) * (columns / kTile) >= (kEnough + batches - 1) / batches;
}

// One block chooses among so many elements in less time than several launches take.
constexpr int64_t kMostOfOneBlock = 4 * int64_t{kChoiceChunk};

// Places of elements of a line are numbers of 32 bits.
constexpr int64_t kMostPlaces = int64_t{1} << 31;

// Where a product has few tiles, most multiprocessors would be idle. Returns how many blocks share a tile: as many as
// give work to all, of slices of the inner dim that are long against the cost of adding their sums. It depends on sizes
// alone, so that every GPU gives the same bits.
int64_t SlicesOf(int64_t batches, int64_t rows, int64_t columns, int64_t inner) {
  constexpr int64_t kTile = 64, kEnough = 256, kShortest = 256;
  const int64_t row_tiles = (rows - 1) / kTile + 1, column_tiles = (columns - 1) / kTile + 1;
  if (batches > kEnough || row_tiles > kEnough || column_tiles > kEnough) return 1;
  return std::max<int64_t>(1, std::min(kEnough / (batches * row_tiles * column_tiles), inner / kShortest));
}

// Returns the product with its batch as one dim, if it is one for all operands.
std::optional<DeviceProduct> ProductOf(const MatmulProblem& p) {
  DeviceProduct out;
  out.in = p.dtype, out.out = p.out_dtype;
  if (p.b_dtype != p.dtype) return std::nullopt;
  out.rows = p.m, out.columns = p.n, out.inner = p.k, out.batches = p.batches;
  const auto batch_stride = [&](const std::vector<int64_t>& strides, int64_t* out) {
    for (size_t d = 0; d + 1 < p.batch.size(); ++d) {
      if (strides[d] != p.batch[d + 1] * strides[d + 1]) return false;
    }
    *out = strides.empty() ? 0 : strides.back();
    return true;
  };
  const auto set = [&](DeviceProduct::Matrix* m, int64_t row, int64_t column, const std::vector<int64_t>& batch) {
    m->row = row, m->column = column;
    return batch_stride(batch, &m->batch);
  };
  bool fits = set(&out.a, p.a.row_stride, p.a.col_stride, p.a_batch) &&
              set(&out.b, p.b.row_stride, p.b.col_stride, p.b_batch) &&
              set(&out.c, p.c.row_stride, p.c.col_stride, p.c_batch);
  out.has_bias = p.has_bias;
  if (p.has_bias) fits = fits && set(&out.bias, p.bias_row, p.bias_col, p.bias_batch);
  out.alpha = p.alpha, out.beta = p.beta;
  return fits ? std::make_optional(out) : std::nullopt;
}

// Sets the last of `count` words to the values, and those before to `rest`.
void SetLast(std::vector<int64_t>* words, int first, int count, absl::Span<const int64_t> values, int64_t rest) {
  const int skip = count - static_cast<int>(values.size());
  for (int k = 0; k < count; ++k) (*words)[first + k] = k < skip ? rest : values[k - skip];
}

}  // namespace

absl::Status DeviceOp::LaunchAll(const ExecutionDevice& device, int64_t* status) const {
  for (const Launch& l : launches_) {
    KernelLaunch launch;
    launch.image = image_;
    launch.kernel = l.kernel;
    launch.words = l.words.data();
    launch.tiles = 1;
    launch.status = status;
    SMELT_RETURN_IF_ERROR(device.Launch(launch));
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> DeviceOp::Run(const ExecutionDevice& device, absl::Span<char* const> inputs,
                                   absl::Span<char* const> outputs, int64_t* status,
                                   absl::Span<const int64_t> epilogue) {
  if (is_on_host_) return false;
  if (launches_.empty()) return true;
  if (product_ != nullptr) {
    const char* const bias = inputs.size() > 2 ? inputs[2] : nullptr;
    SMELT_ASSIGN_OR_RETURN(const bool ran, product_->Run(inputs[product_a_], inputs[product_b_], bias, outputs[0]));
    if (ran) return true;
  }
  for (const Operand& o : operands_) {
    launches_[o.launch].words[o.word] = WordOf((o.is_output ? outputs : inputs)[o.number]);
  }
  for (Launch& l : launches_) std::copy(epilogue.begin(), epilogue.end(), l.words.end() - epilogue.size());
  std::shared_ptr<Storage> room;
  if (room_bytes_ > 0) {
    SMELT_ASSIGN_OR_RETURN(room, device.NewStorage(room_bytes_));
    for (const Room& r : rooms_) launches_[r.launch].words[r.word] = WordOf(room->address() + r.offset);
  }
  if (flag_word_ < 0) {
    SMELT_RETURN_IF_ERROR(LaunchAll(device, status));
    return true;
  }
  if (outputs[0] != nullptr && outputs[0] == inputs[0]) return false;
  SMELT_ASSIGN_OR_RETURN(const std::shared_ptr<Storage> flag, device.NewStorage(sizeof(int64_t)));
  SMELT_RETURN_IF_ERROR(device.Zero(flag->address(), sizeof(int64_t)));
  launches_.back().words[flag_word_] = WordOf(flag->address());
  SMELT_RETURN_IF_ERROR(LaunchAll(device, status));
  int64_t is_open = 0;
  SMELT_RETURN_IF_ERROR(device.ToHost(reinterpret_cast<char*>(&is_open), flag->address(), sizeof is_open));
  return is_open == 0;
}

absl::StatusOr<bool> DeviceOp::Fill(const ExecutionDevice& device, double p0, double p1, const Generator& random,
                                    char* to, int64_t* status) {
  using namespace random_words;  // NOLINT
  if (is_on_host_) return false;
  if (launches_.empty()) return true;
  std::vector<int64_t>& words = launches_[0].words;
  words[kTo] = WordOf(to);
  words[kSeed] = static_cast<int64_t>(random.seed), words[kNext] = static_cast<int64_t>(random.next);
  words[kP0] = WordOf(p0), words[kP1] = WordOf(p1);
  SMELT_RETURN_IF_ERROR(LaunchAll(device, status));
  return true;
}

absl::StatusOr<bool> DeviceLibrary::Use(const LibraryKernel& plain, const std::vector<int64_t>& plain_words,
                                        DeviceOp* op) const {
  const LibraryKernel kernel = epilogue_ == nullptr ? plain : WithEpilogue(plain, *epilogue_);
  std::vector<int64_t> words = plain_words;
  if (epilogue_ != nullptr) words.resize(words.size() + static_cast<size_t>(epilogue_->num_words));
  if (image_ == nullptr || kernel.NumWords() != static_cast<int>(words.size())) return false;
  SMELT_ASSIGN_OR_RETURN(const int number, image_->FindLibraryKernel(kernel));
  if (number < 0) return false;
  op->image_ = image_;
  op->launches_.push_back({number, std::move(words)});
  return true;
}

absl::StatusOr<std::unique_ptr<DeviceOp>> DeviceLibrary::Prepare(const LibraryRequest& request,
                                                                 absl::string_view source) const {
  auto op = std::make_unique<DeviceOp>();
  const auto make = [&] {
    if (request.op == "matmul") return Product(request, source, op.get());
    if (request.op == "convolution") return Convolution(request, op.get());
    if (request.op == "attention") return Attention(request, op.get());
    if (request.op == "searchsorted") return Search(request, op.get());
    if (request.op == "nonzero" || request.op == "masked_select") return Choose(request, op.get());
    if (request.op == "unique" || request.op == "unique_count") return Runs(request, op.get());
    if (request.op == "bincount") return Bincount(request, op.get());
    return Order(request, op.get());
  };
  SMELT_ASSIGN_OR_RETURN(const bool has_kernel, make());
  op->is_on_host_ = !has_kernel;
  return op;
}

absl::StatusOr<bool> DeviceLibrary::Product(const LibraryRequest& r, absl::string_view source, DeviceOp* op) const {
  using namespace product_words;  // NOLINT
  SMELT_ASSIGN_OR_RETURN(const MatmulProblem p, library_internal::UnderstandMatmul(r));
  if (p.batch.size() > 4) return false;
  if (p.m == 0 || p.n == 0 || p.batches == 0) return true;
  std::vector<int64_t> words(kCount, 0);
  words[kRows] = p.m, words[kColumns] = p.n, words[kInner] = p.k;
  SetLast(&words, kBatch, 4, p.batch, 1);
  const auto matrix = [&](int first, DeviceOp::Operand at, int64_t row, int64_t column,
                          const std::vector<int64_t>& batch) {
    op->operands_.push_back(at);
    words[first + 1] = row, words[first + 2] = column;
    SetLast(&words, first + 3, 4, batch, 0);
  };
  matrix(kA, {kA, p.swapped ? 1 : 0}, p.a.row_stride, p.a.col_stride, p.a_batch);
  matrix(kB, {kB, p.swapped ? 0 : 1}, p.b.row_stride, p.b.col_stride, p.b_batch);
  matrix(kC, {kC, 0, true}, p.c.row_stride, p.c.col_stride, p.c_batch);
  if (p.has_bias) matrix(kBias, {kBias, 2}, p.bias_row, p.bias_col, p.bias_batch);
  words[kAlpha] = WordOf(p.alpha), words[kBeta] = WordOf(p.beta);
  const std::vector<DType> types = {p.dtype, p.out_dtype};
  if (device_ != nullptr) {
    if (std::optional<DeviceProduct> product = ProductOf(p)) {
      product->name = absl::StrCat(source, source.empty() ? "" : ": ", "matmul of [", p.m, ", ", p.k, "] and [", p.k,
                                   ", ", p.n, "]");
      SMELT_ASSIGN_OR_RETURN(op->product_, device_->Prepare(*product));
      op->product_a_ = p.swapped ? 1 : 0, op->product_b_ = p.swapped ? 0 : 1;
    }
  }
  if (ArePlenty(p.batches, p.m, p.n)) {
    SMELT_ASSIGN_OR_RETURN(const bool found, Use({kWideProductKernel, types}, words, op));
    if (found) return true;
  }
  if (const int64_t slices = SlicesOf(p.batches, p.m, p.n, p.k); slices > 1) {
    words.push_back(slices);
    SMELT_ASSIGN_OR_RETURN(const bool found, Use({kSplitProductKernel, types}, words, op));
    if (found) return true;
    words.pop_back();
  }
  return Use({kProductKernel, types}, words, op);
}

absl::StatusOr<bool> DeviceLibrary::Convolution(const LibraryRequest& r, DeviceOp* op) const {
  using namespace convolution_words;  // NOLINT
  SMELT_RETURN_IF_ERROR(library_internal::CheckArity(r, 2, 3, 1, 1, -1));
  const OperandShape &in = r.inputs[0], &weight = r.inputs[1], &out = r.outputs[0];
  // PyTorch has rules of its own for empty operands, which the host knows.
  if (in.NumElements() == 0 || weight.NumElements() == 0 || out.NumElements() == 0) return false;
  SMELT_ASSIGN_OR_RETURN(const ConvParams p, library_internal::ParseConvParams(r, in, weight, out));
  SMELT_RETURN_IF_ERROR(library_internal::SameRealDTypes(r));
  const bool has_bias = r.inputs.size() > 2 && r.inputs[2].present;
  if (has_bias && (r.inputs[2].rank() != 1 || r.inputs[2].sizes[0] != out.sizes[1])) return false;
  const int64_t in_channels = in.sizes[1] / p.groups, out_channels = out.sizes[1] / p.groups;
  std::vector<int64_t> words(kCount, 0);
  words[kImages] = out.sizes[0], words[kGroups] = p.groups;
  words[kOutChannels] = out_channels, words[kInChannels] = in_channels;
  words[kTransposed] = p.transposed;
  const auto spatial = [&](const std::vector<int64_t>& v) { return absl::MakeConstSpan(v).subspan(2); };
  SetLast(&words, kOut, 3, spatial(out.sizes), 1);
  SetLast(&words, kIn, 3, spatial(in.sizes), 1);
  SetLast(&words, kTaps, 3, spatial(weight.sizes), 1);
  SetLast(&words, kStride, 3, p.stride, 1);
  SetLast(&words, kPadding, 3, p.padding, 0);
  SetLast(&words, kDilation, 3, p.dilation, 1);
  const auto image = [&](int first, const OperandShape& o, int64_t channels) {
    words[first + 1] = o.strides[0], words[first + 2] = o.strides[1];
    words[first + 3] = o.strides[1] * channels;
    SetLast(&words, first + 4, 3, spatial(o.strides), 0);
  };
  image(kInput, in, in_channels);
  image(kOutput, out, out_channels);
  op->operands_ = {{kInput, 0}, {kWeight, 1}, {kOutput, 0, true}};
  words[kWeight + 1] = weight.strides[p.transposed ? 0 : 1];
  words[kWeight + 2] = weight.strides[p.transposed ? 1 : 0];
  words[kWeight + 3] = weight.strides[0] * (p.transposed ? in_channels : out_channels);
  SetLast(&words, kWeight + 4, 3, spatial(weight.strides), 0);
  if (has_bias) {
    op->operands_.push_back({kBias, 2});
    words[kBias + 1] = r.inputs[2].strides[0];
    words[kBias + 2] = r.inputs[2].strides[0] * out_channels;
  }
  const std::vector<DType> types = {in.dtype, out.dtype};
  if (ArePlenty(p.groups, out.NumElements() / out.sizes[1], out_channels)) {
    SMELT_ASSIGN_OR_RETURN(const bool found, Use({kWideConvolutionKernel, types}, words, op));
    if (found) return true;
  }
  return Use({kConvolutionKernel, types}, words, op);
}

absl::StatusOr<bool> DeviceLibrary::Attention(const LibraryRequest& r, DeviceOp* op) const {
  using namespace attention_words;  // NOLINT
  // The host's operator checks the operands.
  SMELT_RETURN_IF_ERROR(library_internal::MakeAttention(r, nullptr).status());
  const OperandShape &query = r.inputs[0], &key = r.inputs[1], &value = r.inputs[2], &out = r.outputs[0];
  const int leading = query.rank() - 2;
  if (leading > 4 || out.sizes[leading + 1] > kWidestValue || query.sizes[leading + 1] == 0) return false;
  if (out.NumElements() == 0) return true;
  std::vector<int64_t> words(kCount, 0);
  const auto heads = [&](const std::vector<int64_t>& v) { return absl::MakeConstSpan(v).first(leading); };
  SetLast(&words, kHeads, 4, heads(query.sizes), 1);
  words[kQueries] = query.sizes[leading], words[kKeys] = key.sizes[leading];
  words[kDepth] = query.sizes[leading + 1], words[kColumns] = out.sizes[leading + 1];
  const auto matrix = [&](const DeviceOp::Operand& at, const OperandShape& o, bool broadcasts) {
    std::vector<int64_t> strides = o.strides;
    for (int d = 0; broadcasts && d < o.rank(); ++d) {
      if (o.sizes[d] == 1) strides[d] = 0;
    }
    op->operands_.push_back(at);
    SetLast(&words, at.word + 1, 4, heads(strides), 0);
    words[at.word + 5] = strides[leading], words[at.word + 6] = strides[leading + 1];
  };
  matrix({kQuery, 0}, query, false);
  matrix({kKey, 1}, key, false);
  matrix({kValue, 2}, value, false);
  matrix({kOut, 0, true}, out, false);
  const bool has_mask = r.inputs.size() > 3 && r.inputs[3].present;
  if (has_mask) matrix({kMask, 3}, r.inputs[3], true);
  const auto shares = [&](int word, const OperandShape& o) {
    std::vector<int64_t> divisors;
    for (int d = 0; d < leading; ++d) divisors.push_back(o.sizes[d] == 0 ? 1 : query.sizes[d] / o.sizes[d]);
    SetLast(&words, word, 4, divisors, 1);
  };
  shares(kKeyShares, key);
  shares(kValueShares, value);
  constexpr int64_t kFar = int64_t{1} << 31;
  words[kFirst] = std::clamp(r.ints[0], -kFar, kFar), words[kLast] = std::clamp(r.ints[1], -kFar, kFar);
  words[kEmptyIsNan] = r.ints[2] != 0;
  words[kScale] = WordOf(r.floats[0]), words[kCap] = WordOf(r.floats[1]);
  const std::vector<DType> types = {query.dtype, has_mask ? r.inputs[3].dtype : query.dtype};
  if (words[kDepth] <= kDeepestQuery) {
    SMELT_ASSIGN_OR_RETURN(const bool found, Use({kTensorAttentionKernel, types}, words, op));
    if (found) return true;
  }
  return Use({kAttentionKernel, types}, words, op);
}

// The host keeps the cases that it refuses, or that it computes as PyTorch's CPU kernels do.
absl::StatusOr<bool> DeviceLibrary::Order(const LibraryRequest& r, DeviceOp* op) const {
  using namespace order_words;  // NOLINT
  const auto ints = [&](size_t n) { return r.inputs.size() == 1 && r.outputs.size() <= 2 && r.ints.size() == n; };
  int64_t dim = 0, keep = 1, first = 0, first_tie = 0, ties = 0;
  int median = 0;
  bool descending = false, sorts = false;
  if (r.op == "sort" && ints(3)) {
    dim = r.ints[0], descending = r.ints[1] != 0, sorts = true;
  } else if (r.op == "topk" && ints(4) && r.ints[3] != 0) {
    keep = r.ints[0], dim = r.ints[1], descending = r.ints[2] != 0, ties = keep;
  } else if (r.op == "kthvalue" && ints(2)) {
    dim = r.ints[0], first = r.ints[1] - 1;
    first_tie = std::max<int64_t>(first - 1, 0), ties = first + 1;
  } else if ((r.op == "median" || r.op == "nanmedian") && ints(2)) {
    dim = r.ints[0], median = r.op == "median" ? 1 : 2;
  } else {
    return false;
  }
  const OperandShape& in = r.inputs[0];
  const int rank = in.rank();
  if (rank < 1 || rank > kStridedRank + 1 || IsComplex(in.dtype)) return false;
  if (dim < 0) dim += rank;
  if (dim < 0 || dim >= rank) return false;
  const int64_t length = in.sizes[dim];
  if (length < 1 || length > kMostPlaces) return false;
  if (sorts) keep = length;
  if (keep < 0 || first < 0 || keep > length - first) return false;
  const auto get = [&](size_t k) { return k < r.outputs.size() ? r.outputs[k] : OperandShape(); };
  const OperandShape values = get(0), indices = get(1);
  std::vector<int64_t> expected = in.sizes;
  expected[dim] = keep;
  if (values.present && (values.sizes != expected || values.dtype != in.dtype)) return false;
  if (indices.present && (indices.sizes != expected || indices.dtype != DType::kInt64)) return false;
  if (in.NumElements() == 0 || keep == 0) return true;
  // Equal elements matter where they are told apart by their indices.
  const bool may_tie = (r.op == "topk" || r.op == "kthvalue" || r.op == "nanmedian") && indices.present;
  std::vector<int64_t> words(kCount, 0);
  const auto others = [&](std::vector<int64_t> v) {
    v.erase(v.begin() + dim);
    return v;
  };
  SetLast(&words, kLines, kStridedRank, others(in.sizes), 1);
  const auto operand = [&](const DeviceOp::Operand& at, const OperandShape& o) {
    op->operands_.push_back(at);
    SetLast(&words, at.word + 1, kStridedRank, others(o.strides), 0);
    words[at.word + 1 + kStridedRank] = o.strides[dim];
  };
  operand({kIn, 0}, in);
  if (values.present) operand({kValues, 0, true}, values);
  if (indices.present) operand({kIndices, 1, true}, indices);
  words[kLength] = length, words[kKeep] = keep, words[kFirst] = first, words[kMedian] = median;
  words[kDescending] = descending, words[kFirstTie] = first_tie, words[kTies] = ties;
  // An order that only PyTorch's CPU kernels define is the host's work. So is the answer to whether there is one.
  if (may_tie) op->flag_word_ = kFlag;
  if (length <= kLongestLine) return Use({kOrderKernel, {in.dtype}}, words, op);
  const std::vector<DeviceOp::Operand> operands = std::exchange(op->operands_, {});
  SMELT_ASSIGN_OR_RETURN(const std::optional<PairsOfLines> pairs,
                         SortPairs(in.dtype, in.NumElements() / length, length, &words, op));
  if (!pairs) return false;
  const size_t launch = op->launches_.size();
  for (DeviceOp::Operand o : operands) {
    o.launch = launch;
    op->operands_.push_back(o);
  }
  PlacePairs(*pairs, launch, op);
  return Use({kOrderTakeKernel, {in.dtype}}, words, op);
}

void DeviceLibrary::PlacePairs(const PairsOfLines& pairs, size_t launch, DeviceOp* op) {
  using namespace long_order_words;  // NOLINT
  op->rooms_.push_back({launch, kKeys, pairs.keys});
  op->rooms_.push_back({launch, kPlaces, pairs.places});
  op->rooms_.push_back({launch, kOtherKeys, pairs.other_keys});
  op->rooms_.push_back({launch, kOtherPlaces, pairs.other_places});
}

absl::StatusOr<std::optional<DeviceLibrary::PairsOfLines>> DeviceLibrary::SortPairs(DType t, int64_t lines,
                                                                                    int64_t length,
                                                                                    std::vector<int64_t>* words,
                                                                                    DeviceOp* op) const {
  using namespace long_order_words;  // NOLINT
  constexpr int64_t kKeyBytes = sizeof(int64_t), kPlaceBytes = sizeof(int32_t);
  int64_t pairs;
  if (__builtin_mul_overflow(lines, length, &pairs) ||
      __builtin_mul_overflow(pairs, 2 * (kKeyBytes + kPlaceBytes), &op->room_bytes_)) {
    return std::nullopt;
  }
  words->resize(kCount);
  PairsOfLines now = {0, 2 * kKeyBytes * pairs, kKeyBytes * pairs, (2 * kKeyBytes + kPlaceBytes) * pairs};
  PlacePairs(now, op->launches_.size(), op);
  op->operands_.push_back({order_words::kIn, 0, false, op->launches_.size()});
  SMELT_ASSIGN_OR_RETURN(const bool sorts, Use({kOrderPiecesKernel, {t}}, *words, op));
  if (!sorts) return std::nullopt;
  for (int64_t run = kLongestLine; run < length; run *= 2) {
    PlacePairs(now, op->launches_.size(), op);
    (*words)[kRun] = run;
    SMELT_ASSIGN_OR_RETURN(const bool merges, Use({kOrderMergeKernel, {}}, *words, op));
    if (!merges) return std::nullopt;
    std::swap(now.keys, now.other_keys);
    std::swap(now.places, now.other_places);
  }
  return now;
}

absl::StatusOr<bool> DeviceLibrary::Runs(const LibraryRequest& r, DeviceOp* op) const {
  using namespace runs_words;  // NOLINT
  const bool counts_only = r.op == "unique_count";
  if (r.inputs.size() != 1 || r.outputs.empty() || r.outputs.size() > (counts_only ? 1 : 3) || r.ints.size() != 1)
    return false;
  const OperandShape& in = r.inputs[0];
  const auto get = [&](size_t k) { return k < r.outputs.size() ? r.outputs[k] : OperandShape(); };
  const OperandShape first = get(0), inverse = get(1), counts = get(2);
  const int64_t n = in.NumElements();
  // Elements are numbered along one stride.
  const auto is_line = [](const OperandShape& o) { return o.rank() == 1 || o.IsDense(); };
  const auto stride = [](const OperandShape& o) { return o.rank() == 1 ? o.strides[0] : 1; };
  const auto holds_numbers = [](const OperandShape& o) { return !o.present || o.dtype == DType::kInt64; };
  if (IsComplex(in.dtype) || n == 0 || n > kMostPlaces || !is_line(in) || !first.present) return false;
  if (counts_only ? first.dtype != DType::kInt64 || first.NumElements() != 1
                  : first.dtype != in.dtype || first.rank() != 1)
    return false;
  if (!holds_numbers(inverse) || (inverse.present && (inverse.sizes != in.sizes || !is_line(inverse)))) return false;
  if (!holds_numbers(counts) || (counts.present && counts.sizes != first.sizes)) return false;
  if (r.ints[0] == 0) {
    std::vector<int64_t> order(order_words::kCount, 0);
    for (int d = 0; d < kStridedRank; ++d) order[order_words::kLines + d] = 1;
    order[order_words::kLength] = n, order[order_words::kIn + 1 + kStridedRank] = stride(in);
    SMELT_ASSIGN_OR_RETURN(const std::optional<PairsOfLines> pairs, SortPairs(in.dtype, 1, n, &order, op));
    if (!pairs) return false;
    op->rooms_.push_back({op->launches_.size(), kKeys, pairs->keys});
    op->rooms_.push_back({op->launches_.size(), kPlaces, pairs->places});
  }
  const size_t launch = op->launches_.size();
  if (counts.present) {
    op->rooms_.push_back({launch, kBegins, op->room_bytes_});
    op->room_bytes_ += n * static_cast<int64_t>(sizeof(int64_t));
  }
  std::vector<int64_t> words(kEnd, 0);
  words[kLength] = n, words[kIn + 1] = stride(in);
  words[kRoom] = counts_only ? n : first.sizes[0];
  op->operands_.push_back({kIn, 0, false, launch});
  if (counts_only) {
    op->operands_.push_back({kNumber, 0, true, launch});
  } else {
    op->operands_.push_back({kValues, 0, true, launch});
    words[kValues + 1] = first.strides[0];
  }
  if (inverse.present) {
    op->operands_.push_back({kInverse, 1, true, launch});
    words[kInverse + 1] = stride(inverse);
  }
  if (counts.present) {
    op->operands_.push_back({kCounts, 2, true, launch});
    words[kCounts + 1] = counts.strides[0];
  }
  if (n > kMostOfOneBlock) {
    SMELT_ASSIGN_OR_RETURN(const bool found, Use({kWideRunsKernel, {in.dtype}}, words, op));
    if (found) return true;
  }
  return Use({kRunsKernel, {in.dtype}}, words, op);
}

// The host refuses elements that are no bin.
absl::StatusOr<bool> DeviceLibrary::Bincount(const LibraryRequest& r, DeviceOp* op) const {
  using namespace bincount_words;  // NOLINT
  if (r.inputs.empty() || (r.inputs.size() > 1 && r.inputs[1].present) || r.outputs.size() != 1) return false;
  const OperandShape &in = r.inputs[0], &out = r.outputs[0];
  if (in.rank() != 1 || out.rank() != 1 || !IsIntegral(in.dtype) || out.dtype != DType::kInt64) return false;
  std::vector<int64_t> words(kCount, 0);
  words[kLength] = in.sizes[0], words[kIn + 1] = in.strides[0];
  words[kBins] = out.sizes[0], words[kOut + 1] = out.strides[0];
  op->operands_ = {{kIn, 0}, {kOut, 0, true}};
  op->flag_word_ = kFlag;
  return Use({kBincountKernel, {in.dtype}}, words, op);
}

absl::StatusOr<bool> DeviceLibrary::Search(const LibraryRequest& r, DeviceOp* op) const {
  using namespace search_words;  // NOLINT
  if (r.inputs.size() < 2 || (r.inputs.size() > 2 && r.inputs[2].present) || r.outputs.size() != 1 ||
      r.ints.size() != 1)
    return false;
  const OperandShape &sorted = r.inputs[0], &values = r.inputs[1], &out = r.outputs[0];
  const int rank = values.rank();
  if (sorted.rank() < 1 || rank > kStridedRank || out.sizes != values.sizes) return false;
  std::vector<int64_t> rows(static_cast<size_t>(rank), 0);
  if (sorted.rank() > 1) {
    if (sorted.rank() != rank) return false;
    for (int d = 0; d + 1 < rank; ++d) {
      if (sorted.sizes[d] != values.sizes[d]) return false;
      rows[d] = sorted.strides[d];
    }
  }
  if (values.NumElements() == 0) return true;
  std::vector<int64_t> words(kCount, 0);
  SetLast(&words, kSizes, kStridedRank, values.sizes, 1);
  op->operands_ = {{kSorted, 0}, {kValues, 1}, {kOut, 0, true}};
  SetLast(&words, kValues + 1, kStridedRank, values.strides, 0);
  SetLast(&words, kSorted + 1, kStridedRank, rows, 0);
  words[kSorted + 1 + kStridedRank] = sorted.strides.back();
  SetLast(&words, kOut + 1, kStridedRank, out.strides, 0);
  words[kLength] = sorted.sizes.back(), words[kRight] = r.ints[0] != 0;
  return Use({kSearchKernel, {sorted.dtype, values.dtype, out.dtype}}, words, op);
}

absl::StatusOr<bool> DeviceLibrary::Choose(const LibraryRequest& r, DeviceOp* op) const {
  using namespace choice_words;  // NOLINT
  const bool by_mask = r.op == "masked_select";
  if (r.inputs.size() != (by_mask ? 2 : 1) || r.outputs.size() != 1) return false;
  const OperandShape &in = r.inputs[0], &flags = r.inputs.back(), &out = r.outputs[0];
  const int rank = in.rank();
  if (rank > kStridedRank || out.rank() != (by_mask ? 1 : 2)) return false;
  if (by_mask ? flags.sizes != in.sizes || flags.dtype != DType::kBool || out.dtype != in.dtype
              : out.sizes[1] != rank || out.dtype != DType::kInt64)
    return false;
  if (in.NumElements() == 0 || out.NumElements() == 0) return true;
  std::vector<int64_t> words(kEnd, 0);
  SetLast(&words, kSizes, kStridedRank, in.sizes, 1);
  op->operands_ = {{kFlags, by_mask ? 1 : 0}, {kFrom, 0}, {kOut, 0, true}};
  SetLast(&words, kFlags + 1, kStridedRank, flags.strides, 0);
  SetLast(&words, kFrom + 1, kStridedRank, in.strides, 0);
  words[kOut + 1] = out.strides[0], words[kOut + 2] = by_mask ? 0 : out.strides[1];
  words[kRank] = rank, words[kCount] = out.sizes[0];
  const std::vector<DType> types = {by_mask ? ElementOfSize(in.dtype) : in.dtype};
  if (in.NumElements() > kMostOfOneBlock) {
    SMELT_ASSIGN_OR_RETURN(const bool found,
                           Use({by_mask ? kWideMaskedSelectKernel : kWideNonzeroKernel, types}, words, op));
    if (found) return true;
  }
  return Use({by_mask ? kMaskedSelectKernel : kNonzeroKernel, types}, words, op);
}

absl::StatusOr<std::unique_ptr<DeviceOp>> DeviceLibrary::PrepareFill(fb::RandomKind kind, DType t,
                                                                     absl::Span<const int64_t> strides,
                                                                     absl::Span<const int64_t> sizes) const {
  using namespace random_words;  // NOLINT
  auto op = std::make_unique<DeviceOp>();
  std::vector<int64_t> merged_sizes, merged_strides;
  for (const StridedDim& d : MergedDims(sizes, strides, strides, /*item_bytes=*/1)) {
    merged_sizes.push_back(d.size);
    merged_strides.push_back(d.dst);
  }
  const auto has_zero = [](const std::vector<int64_t>& v) { return std::find(v.begin(), v.end(), 0) != v.end(); };
  op->is_on_host_ = merged_sizes.size() > kStridedRank || has_zero(merged_strides);
  if (op->is_on_host_ || has_zero(merged_sizes)) return op;
  std::vector<int64_t> words(kCount, 0);
  SetLast(&words, kSizes, kStridedRank, merged_sizes, 1);
  SetLast(&words, kTo + 1, kStridedRank, merged_strides, 0);
  SMELT_ASSIGN_OR_RETURN(const bool found, Use(RandomKernelFor(kind, t), words, op.get()));
  op->is_on_host_ = !found;
  return op;
}

}  // namespace smelt
