// The bases of library kernels, and the words that they take. Code generation reads the words, and the runtime writes
// them. Numbers of elements and strides are in elements, addresses in bytes; words of kind "double" hold the bits of one.
//
// Bundles may be older or newer than the runtime that reads them: whoever changes the words of a kernel, or its launch,
// changes its base.
#ifndef SMELT_SCHEMA_LIBRARY_WORDS_H_
#define SMELT_SCHEMA_LIBRARY_WORDS_H_

namespace smelt {

// c[z, m, n] = alpha * sum over k of a[z, m, k] * b[z, k, n] + beta * bias[z, m, n], for up to four dims z. Types: a and
// b; c and the bias. The second form computes larger tiles; both give the same bits. The third one has several blocks
// compute a tile, each over a slice of the inner dim, and then adds their sums in the order of the slices. A slice has
// as many times kSliceUnit elements as spread the inner dim evenly; the last ones may be shorter, or empty.
inline constexpr char kProductKernel[] = "product", kWideProductKernel[] = "product_wide",
                      kSplitProductKernel[] = "product_split";
inline constexpr int kSliceUnit = 32;
namespace product_words {
enum Word {
  kRows,
  kColumns,
  kInner,
  kBatch,           // four sizes
  kA = kBatch + 4,  // the address, the strides of m and k, and four strides of z
  kB = kA + 7,      // ... k, n
  kC = kB + 7,      // ... m, n
  kBias = kC + 7,   // ... m, n; the address is 0 if there is none
  kAlpha = kBias + 7,
  kBeta,  // doubles
  kCount,
  kSlices = kCount,  // of the split form
  kSplitCount,
};
}  // namespace product_words

// Convolutions in up to three spatial dims, as products without copies: rows are places of the result, columns the
// result's channels of a group, and each tap adds a product over the channels of its group. Types: input and weight;
// output and bias.
inline constexpr char kConvolutionKernel[] = "convolution", kWideConvolutionKernel[] = "convolution_wide";
namespace convolution_words {
enum Word {
  kImages,
  kOut,  // three spatial sizes of the result
  kGroups = kOut + 3,
  kOutChannels,       // of a group
  kInChannels,        // of a group
  kTaps,              // three
  kIn = kTaps + 3,    // three spatial sizes of the input
  kStride = kIn + 3,  // three each
  kPadding = kStride + 3,
  kDilation = kPadding + 3,
  kTransposed = kDilation + 3,  // 0 or 1
  kInput,                       // the address, the strides of image, channel, group, and three spatial ones
  kWeight = kInput + 7,         // the address, the strides of in-channel, out-channel, group, and three taps
  kOutput = kWeight + 7,        // as kInput
  kBias = kOutput + 7,          // the address (0: none), the strides of channel and group
  kCount = kBias + 3,
};
}  // namespace convolution_words

// The dims of tensors whose elements a kernel takes one by one.
inline constexpr int kStridedRank = 6;

// Fills a tensor with the draws [next, ...) of the generator with this seed (runtime/philox.h). The type is the
// tensor's.
inline constexpr char kUniformKernel[] = "uniform", kNormalKernel[] = "normal", kBernoulliKernel[] = "bernoulli",
                      kRandintKernel[] = "randint", kExponentialKernel[] = "exponential";
namespace random_words {
enum Word {
  kSizes,                       // six, the last one varies fastest
  kTo = kSizes + kStridedRank,  // the address, six strides
  kSeed = kTo + 1 + kStridedRank,
  kNext,
  kP0,
  kP1,  // doubles
  kCount,
};
}  // namespace random_words

// Sorts lines of at most kLongestLine elements, stably, NaN above all numbers, and stores the first `keep`; or stores the
// median, the lower one of two. Types: the values'. Lines may be sorted in place.
inline constexpr char kOrderKernel[] = "order";
inline constexpr int kLongestLine = 2048;
namespace order_words {
enum Word {
  kLines,  // six sizes of the other dims, the last one varies fastest
  kLength = kLines + kStridedRank,
  kIn,                               // the address, six strides, and the stride of a line's elements
  kValues = kIn + 2 + kStridedRank,  // the same; the address is 0 if there are none
  kIndices = kValues + 2 + kStridedRank,
  kKeep = kIndices + 2 + kStridedRank,
  kFirst,       // of the elements in order that are stored
  kMedian,      // instead: 1: the median, NaN if there is one; 2: without NaN
  kDescending,  // 0 or 1
  kFlag,        // the address of an int64 that becomes 1 if the order leaves open which elements are stored; 0: none
  kFirstTie,    // ... which it does if two adjacent ones of these elements are equal
  kTies,        // the last of them
  kCount,
};
}  // namespace order_words

// The same for lines that no block's memory holds, in several launches over pairs of a key and an index, in memory of
// the caller: sorts pieces of kLongestLine elements; merges sorted runs of kRun pairs in twos, which must be done until
// one is left; and takes the results. The values of a line are moved when all have been read, so that lines may be sorted
// in place. Types: the values'; none; the values'. The words are those of an order and some more.
inline constexpr char kOrderPiecesKernel[] = "order_pieces", kOrderMergeKernel[] = "order_merge",
                      kOrderTakeKernel[] = "order_take";
namespace long_order_words {
enum Word {
  kKeys = order_words::kCount,  // the address of an int64 for each element, line by line: pairs that are read
  kPlaces,                      // ... of an int32
  kOtherKeys,                   // ... pairs that a merge writes; else room
  kOtherPlaces,
  kRun,  // pairs of a sorted run
  kCount,
};
}  // namespace long_order_words

// Runs of equal elements, of which NaN has none: one element of each, the number of each element's run, the length of
// each run, or how many there are. The elements are in the order that an order of one long line has left, or in their
// own. Types: theirs. The second form is for many elements (see kChoiceChunk).
inline constexpr char kRunsKernel[] = "runs", kWideRunsKernel[] = "runs_wide";
namespace runs_words {
enum Word {
  kLength,
  kIn,              // the address and the stride of elements
  kKeys = kIn + 2,  // sorted keys and places; 0: the elements' own order
  kPlaces,
  kBegins,                 // the address of an int64 for each run, as room
  kValues,                 // the address and the stride; each may be 0
  kInverse = kValues + 2,  // ... of int64, by places of elements
  kCounts = kInverse + 2,  // ... of int64
  kNumber = kCounts + 2,   // ... of one int64
  kRoom,                   // runs that there is room for
  kEnd,
};
}  // namespace runs_words

// Counts the elements that are 0, 1, ...; types: theirs. Elements that are no bin set the flag, and count nowhere.
inline constexpr char kBincountKernel[] = "bincount";
namespace bincount_words {
enum Word {
  kLength,
  kIn,             // the address and the stride of elements
  kOut = kIn + 2,  // ... of int64
  kBins = kOut + 2,
  kFlag,  // the address of an int64
  kCount,
};
}  // namespace bincount_words

// The first place of a row of boundaries in which a value can be inserted (`right`: the last one). Types: boundaries,
// values, places.
inline constexpr char kSearchKernel[] = "search";
namespace search_words {
enum Word {
  kSizes,                                // six, of the values, the last one varies fastest
  kValues = kSizes + kStridedRank,       // the address, six strides
  kSorted = kValues + 1 + kStridedRank,  // the address, six strides of rows, and the stride of boundaries
  kOut = kSorted + 2 + kStridedRank,     // the address, six strides
  kLength = kOut + 1 + kStridedRank,     // boundaries of a row
  kRight,                                // 0 or 1
  kCount,
};
}  // namespace search_words

// softmax(scale * query key^T + mask) value, as the library operator "attention" describes it, for values of at most
// kWidestValue columns. Types: all operands but the mask; the mask, or the same again. The heads of keys and values are
// found by dividing the index of the query's head, dim by dim. The second form is for tensor cores (sm_80), types of 16
// bits, and queries of at most kDeepestQuery columns.
inline constexpr char kAttentionKernel[] = "attention", kTensorAttentionKernel[] = "attention_tensor";
inline constexpr int kWidestValue = 128, kDeepestQuery = 128;
namespace attention_words {
enum Word {
  kHeads,  // four sizes of the query's
  kQueries = kHeads + 4,
  kKeys,
  kDepth,
  kColumns,
  kQuery,                  // the address, four strides of heads, the strides of rows and columns
  kKey = kQuery + 7,       // the same
  kValue = kKey + 7,       // the same
  kOut = kValue + 7,       // the same
  kMask = kOut + 7,        // the same, 0 where its size is 1; the address is 0 if there is none
  kKeyShares = kMask + 7,  // four divisors
  kValueShares = kKeyShares + 4,
  kFirst = kValueShares + 4,  // key j counts for query i if kFirst <= j - i <= kLast
  kLast,
  kEmptyIsNan,  // 0 or 1
  kScale,       // a double
  kCap,         // a double; 0: none
  kCount,
};
}  // namespace attention_words

// The indices of nonzero elements (type: theirs), and the elements for which a mask holds (type: that of their size, as
// of copies), in row-major order. The second forms are for many elements: all blocks of a launch share them, in
// chunks of kChoiceChunk, where the first forms have one block. Both give the same.
inline constexpr char kNonzeroKernel[] = "nonzero", kWideNonzeroKernel[] = "nonzero_wide";
inline constexpr char kMaskedSelectKernel[] = "masked_select", kWideMaskedSelectKernel[] = "masked_select_wide";
inline constexpr int kChoiceChunk = 2048;
namespace choice_words {
enum Word {
  kSizes,                             // six, the last one varies fastest
  kFlags = kSizes + kStridedRank,     // the address, six strides: of the elements or of the mask
  kFrom = kFlags + 1 + kStridedRank,  // ... of the elements that a mask chooses
  kOut = kFrom + 1 + kStridedRank,    // the address, the strides of rows and columns
  kRank = kOut + 3,                   // of the tensor: the last sizes are its own
  kCount,                             // of results that there is room for
  kEnd,
};
}  // namespace choice_words

}  // namespace smelt

#endif  // SMELT_SCHEMA_LIBRARY_WORDS_H_
