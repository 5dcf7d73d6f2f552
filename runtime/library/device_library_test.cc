#include "smelt/runtime/library/device_library.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/runtime/device/device.h"
#include "smelt/schema/library_kernels.h"
#include "smelt/schema/library_words.h"

namespace smelt {
namespace {

// Code that holds some library kernels, and remembers which were looked up.
class Image : public KernelImage {
 public:
  explicit Image(std::vector<std::string> entries) : entries_(std::move(entries)) {}
  absl::StatusOr<int> FindLibraryKernel(const LibraryKernel& kernel) const override {
    lookups_.push_back(kernel.Entry());
    for (size_t k = 0; k < entries_.size(); ++k) {
      if (entries_[k] == kernel.Entry()) return static_cast<int>(k);
    }
    return -1;
  }
  const std::vector<std::string>& lookups() const { return lookups_; }

 private:
  const std::vector<std::string> entries_;
  mutable std::vector<std::string> lookups_;
};

// A device that only remembers its launches.
class Recorder : public ExecutionDevice {
 public:
  explicit Recorder(int num_words) : num_words_(num_words) {}
  Device device() const override { return Device::Cuda(0); }
  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t) const override { return std::shared_ptr<void>(); }
  absl::Status Copy(char*, const char*, int64_t) const override { return absl::OkStatus(); }
  absl::Status ToHost(char*, const char*, int64_t) const override { return absl::OkStatus(); }
  absl::Status FromHost(char*, const char*, int64_t) const override { return absl::OkStatus(); }
  absl::Status Zero(char*, int64_t) const override { return absl::OkStatus(); }
  absl::Status CopyStrided(char*, absl::Span<const int64_t>, const char*, absl::Span<const int64_t>,
                           absl::Span<const int64_t>, int) const override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::shared_ptr<const KernelImage>> Load(absl::Span<const uint8_t>,
                                                          std::vector<DeviceKernel>) const override {
    return std::shared_ptr<const KernelImage>();
  }
  absl::Status Launch(const KernelLaunch& l) const override {
    kernels_.push_back(l.kernel);
    words_.emplace_back(l.words, l.words + num_words_);
    return absl::OkStatus();
  }
  absl::Status Synchronize() const override { return absl::OkStatus(); }

  absl::StatusOr<std::shared_ptr<const PreparedProduct>> Prepare(const DeviceProduct& product) const override {
    products_.push_back(product);
    return std::shared_ptr<const PreparedProduct>();
  }

  const std::vector<int>& kernels() const { return kernels_; }
  const std::vector<DeviceProduct>& products() const { return products_; }
  const std::vector<std::vector<int64_t>>& words() const { return words_; }

 private:
  const int num_words_;
  mutable std::vector<int> kernels_;
  mutable std::vector<std::vector<int64_t>> words_;
  mutable std::vector<DeviceProduct> products_;
};

OperandShape Matrix(int64_t rows, int64_t columns) {
  return {.present = true, .dtype = DType::kFloat32, .sizes = {rows, columns}, .strides = {columns, 1}};
}
LibraryRequest Matmul(int64_t m, int64_t n, int64_t k) {
  return {.op = "matmul",
          .inputs = {Matrix(m, k), Matrix(k, n), {}},
          .outputs = {Matrix(m, n)},
          .ints = {},
          .floats = {1, 1},
          .strings = {}};
}

constexpr char kProduct[] = "smelt_product_float32_float32";

TEST(DeviceLibraryTest, LooksItsKernelUpWhenItIsPreparedAndNotAtACall) {
  const Image image({kProduct});
  auto op = DeviceLibrary(&image).Prepare(Matmul(2, 3, 4));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_TRUE((*op)->has_kernel());
  const std::vector<std::string> lookups = image.lookups();
  EXPECT_EQ(lookups, std::vector<std::string>{kProduct});
  const Recorder device(product_words::kCount);
  char memory[6];
  for (int call = 0; call < 2; ++call) {
    char* const inputs[] = {memory + call, memory + call + 1, nullptr};
    char* const outputs[] = {memory + call + 2};
    const absl::StatusOr<bool> ran = (*op)->Run(device, inputs, outputs, nullptr);
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_TRUE(*ran);
  }
  EXPECT_EQ(image.lookups(), lookups);
  EXPECT_EQ(device.kernels(), (std::vector<int>{0, 0}));
}

TEST(DeviceLibraryTest, ALibraryOfTheDeviceIsAskedForProductsWithOneStridePerBatch) {
  const Image image({kProduct, "smelt_product_wide_float32_float32", "smelt_product_split_float32_float32"});
  const Recorder device(product_words::kCount);
  const DeviceLibrary library(&image, &device);
  const auto asks = [&](const LibraryRequest& r) {
    const size_t before = device.products().size();
    EXPECT_TRUE(library.Prepare(r, "model.py:3").ok());
    return device.products().size() > before;
  };
  EXPECT_TRUE(asks(Matmul(64, 64, 64)));
  EXPECT_EQ(device.products().back().name, "model.py:3: matmul of [64, 64] and [64, 64]");
  // Batches [2, 3] of matrices that follow each other, and of the first of every two.
  for (const int64_t each : {1, 2}) {
    LibraryRequest r = Matmul(64, 64, 64);
    for (std::vector<OperandShape>* list : {&r.inputs, &r.outputs}) {
      for (OperandShape& o : *list) {
        if (!o.present) continue;
        o.sizes = {2, 3, 64, 64};
        o.strides = {3 * 4096 * each, 4096, 64, 1};
      }
    }
    EXPECT_EQ(asks(r), each == 1);
  }
  const DeviceProduct& last = device.products().back();
  EXPECT_EQ(last.batches, 6);
  EXPECT_EQ(last.a.batch, 4096);
  EXPECT_EQ(last.c.batch, 4096);
}

TEST(DeviceLibraryTest, OnlyAddressesDifferBetweenCalls) {
  const Image image({kProduct});
  auto op = DeviceLibrary(&image).Prepare(Matmul(2, 3, 4));
  ASSERT_TRUE(op.ok()) << op.status();
  const Recorder device(product_words::kCount);
  char memory[6];
  for (int call = 0; call < 2; ++call) {
    char* const inputs[] = {memory + call, memory + call + 1, nullptr};
    char* const outputs[] = {memory + call + 2};
    ASSERT_TRUE((*op)->Run(device, inputs, outputs, nullptr).ok());
  }
  std::vector<int64_t> first = device.words()[0];
  EXPECT_EQ(first[product_words::kRows] * first[product_words::kColumns] * first[product_words::kInner], 24);
  for (int word : {product_words::kA, product_words::kB, product_words::kC}) ++first[word];
  EXPECT_EQ(first, device.words()[1]);
}

TEST(DeviceLibraryTest, SplitsTheInnerDimOfAProductWithFewTiles) {
  const Image image({kProduct, "smelt_product_split_float32_float32"});
  const auto run = [&](int64_t m, int64_t n, int64_t k, int num_words) {
    auto op = DeviceLibrary(&image).Prepare(Matmul(m, n, k));
    EXPECT_TRUE(op.ok()) << op.status();
    const Recorder device(num_words);
    char* const addresses[] = {nullptr, nullptr, nullptr};
    EXPECT_TRUE((*op)->Run(device, addresses, addresses, nullptr).value_or(false));
    return std::pair(device.kernels()[0], device.words()[0].back());
  };
  // Four tiles of 64 x 64, and slices of at least 256.
  EXPECT_EQ(run(100, 70, 4096, product_words::kSplitCount), std::pair(1, int64_t{16}));
  EXPECT_EQ(run(100, 70, 100000, product_words::kSplitCount), std::pair(1, int64_t{64}));
  // A short inner dim; tiles for all.
  EXPECT_EQ(run(100, 70, 500, product_words::kCount).first, 0);
  EXPECT_EQ(run(1024, 1024, 4096, product_words::kCount).first, 0);
}

TEST(DeviceLibraryTest, MergesThePiecesOfALongLine) {
  using namespace long_order_words;  // NOLINT
  const Image image({"smelt_order_pieces_float32", "smelt_order_merge", "smelt_order_take_float32"});
  const OperandShape line = {.present = true, .dtype = DType::kFloat32, .sizes = {2, 5000}, .strides = {5000, 1}};
  OperandShape indices = line;
  indices.dtype = DType::kInt64;
  auto op = DeviceLibrary(&image).Prepare(
      {.op = "sort", .inputs = {line}, .outputs = {line, indices}, .ints = {1, 0, 1}, .floats = {}, .strings = {}});
  ASSERT_TRUE(op.ok()) << op.status();
  const Recorder device(kCount);
  char* const inputs[] = {nullptr};
  char* const outputs[] = {nullptr, nullptr};
  const absl::StatusOr<bool> ran = (*op)->Run(device, inputs, outputs, nullptr);
  ASSERT_TRUE(ran.ok() && *ran) << ran.status();
  EXPECT_EQ(device.kernels(), (std::vector<int>{0, 1, 1, 2}));
  const auto& words = device.words();
  EXPECT_EQ(words[1][kRun], kLongestLine);
  EXPECT_EQ(words[2][kRun], 2 * kLongestLine);
  for (size_t k = 1; k < words.size(); ++k) {
    // A launch reads what the one before has written.
    const bool after_merge = k > 1;
    EXPECT_EQ(words[k][kKeys], words[k - 1][after_merge ? kOtherKeys : kKeys]);
    EXPECT_EQ(words[k][kPlaces], words[k - 1][after_merge ? kOtherPlaces : kPlaces]);
  }
  // Two sets of 10,000 keys of 8 bytes, and of as many places of 4.
  EXPECT_EQ(std::abs(words[0][kKeys] - words[0][kOtherKeys]), 80000);
  EXPECT_EQ(std::abs(words[0][kPlaces] - words[0][kOtherPlaces]), 40000);
}

TEST(DeviceLibraryTest, AllBlocksChooseAmongManyElementsIfTheImageHasSuchAKernel) {
  const auto kernel = [](int64_t n, std::vector<std::string> entries) {
    const Image image(std::move(entries));
    const OperandShape in = {.present = true, .dtype = DType::kFloat32, .sizes = {n}, .strides = {1}};
    const OperandShape out = {.present = true, .dtype = DType::kInt64, .sizes = {n, 1}, .strides = {1, 1}};
    auto op = DeviceLibrary(&image).Prepare(
        {.op = "nonzero", .inputs = {in}, .outputs = {out}, .ints = {}, .floats = {}, .strings = {}});
    EXPECT_TRUE(op.ok()) << op.status();
    const Recorder device(choice_words::kEnd);
    char* const addresses[] = {nullptr};
    EXPECT_TRUE((*op)->Run(device, addresses, addresses, nullptr).value_or(false));
    return image.lookups().back();
  };
  const std::string one = "smelt_nonzero_float32", wide = "smelt_nonzero_wide_float32";
  EXPECT_EQ(kernel(4 * kChoiceChunk, {one, wide}), one);
  EXPECT_EQ(kernel(4 * kChoiceChunk + 1, {one, wide}), wide);
  // An earlier version has compiled the bundle.
  EXPECT_EQ(kernel(4 * kChoiceChunk + 1, {one}), one);
}

TEST(DeviceLibraryTest, LeavesTheStepToTheHostWhereTheImageHasNoKernel) {
  const Image image({});
  auto op = DeviceLibrary(&image).Prepare(Matmul(2, 3, 4));
  ASSERT_TRUE(op.ok()) << op.status();
  EXPECT_FALSE((*op)->has_kernel());
  const Recorder device(product_words::kCount);
  char* const inputs[] = {nullptr, nullptr, nullptr};
  char* const outputs[] = {nullptr};
  const absl::StatusOr<bool> ran = (*op)->Run(device, inputs, outputs, nullptr);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_FALSE(*ran);
  EXPECT_TRUE(device.kernels().empty());
}

TEST(DeviceLibraryTest, DrawsContinueWhereTheGeneratorStands) {
  const Image image({"smelt_uniform_float32"});
  const int64_t strides[] = {4, 1}, sizes[] = {3, 4};
  auto op = DeviceLibrary(&image).PrepareFill(fb::RandomKind::Uniform, DType::kFloat32, strides, sizes);
  ASSERT_TRUE(op.ok()) << op.status();
  const Recorder device(random_words::kCount);
  Generator random;
  random.seed = 7;
  for (int call = 0; call < 2; ++call) {
    random.next = static_cast<uint64_t>(12 * call);
    const absl::StatusOr<bool> ran = (*op)->Fill(device, 0, 1, random, nullptr, nullptr);
    ASSERT_TRUE(ran.ok() && *ran);
    EXPECT_EQ(device.words().back()[random_words::kSeed], 7);
    EXPECT_EQ(device.words().back()[random_words::kNext], 12 * call);
  }
  EXPECT_EQ(image.lookups().size(), size_t{1});
}

}  // namespace
}  // namespace smelt
