// DLPack both ways: who owns what, and what is refused.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "smelt/runtime/dlpack_abi.h"
#include "smelt/runtime/smelt.h"
#include "smelt/runtime/testing/c_bundle.h"

namespace smelt {
namespace {

using ::testing::HasSubstr;

// A tensor of another library. It counts how often its deleter ran.
template <typename Managed>
struct Foreign {
  explicit Foreign(std::vector<int64_t> sizes_in, std::vector<int64_t> strides_in = {})
      : sizes(std::move(sizes_in)), strides(std::move(strides_in)) {
    std::memset(&managed, 0, sizeof managed);
    managed.dl_tensor.data = values;
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = static_cast<int32_t>(sizes.size());
    managed.dl_tensor.dtype = {kDLFloat, 32, 1};
    managed.dl_tensor.shape = sizes.data();
    managed.dl_tensor.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }
  Managed managed;
  std::vector<int64_t> sizes, strides;
  alignas(8) float values[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  int deleted = 0;
};
using Unversioned = Foreign<DLManagedTensor>;
struct Versioned : Foreign<DLManagedTensorVersioned> {
  explicit Versioned(std::vector<int64_t> sizes_in) : Foreign(std::move(sizes_in)) { managed.version = {1, 1}; }
};

TEST(DLPackTest, ATensorIsOverTheSameMemoryAndItsOwnerGoesLast) {
  Unversioned f({3, 4});
  smelt_tensor* t = nullptr;
  ASSERT_EQ(smelt_tensor_from_dlpack(&f.managed, &t), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_tensor_data(t), f.values);
  EXPECT_EQ(smelt_tensor_strides(t)[0], 4);
  EXPECT_EQ(smelt_tensor_dtype(t), SMELT_FLOAT32);
  const int64_t two[] = {2}, one[] = {1};
  smelt_tensor* view = smelt_tensor_view(t, 1, two, one, 10);
  smelt_tensor_release(t);
  EXPECT_EQ(f.deleted, 0);
  EXPECT_EQ(static_cast<const float*>(smelt_tensor_data(view))[1], 11);
  smelt_tensor_release(view);
  EXPECT_EQ(f.deleted, 1);
}

TEST(DLPackTest, StridesAndByteOffsetsCount) {
  Unversioned f({2, 2}, {1, 4});
  f.managed.dl_tensor.byte_offset = 8;
  smelt_tensor* t = nullptr;
  ASSERT_EQ(smelt_tensor_from_dlpack(&f.managed, &t), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_tensor_data(t), f.values + 2);
  smelt_array a;
  ASSERT_EQ(smelt_tensor_describe(t, &a), SMELT_OK);
  EXPECT_EQ(a.bytes, 6 * 4);  // elements 0, 1, 4 and 5 from there on
  EXPECT_EQ(a.flags, 0u);
  smelt_tensor_release(t);
}

// The strides of a dim of one element are the view's, not those of its sizes.
TEST(DLPackTest, AViewOfOneRowKeepsItsStrides) {
  const int64_t sizes[] = {1, 2}, strides[] = {5, 1}, row_major[] = {2, 1};
  float data[5] = {};
  for (const int64_t* given : {strides, row_major}) {
    smelt_tensor* t = smelt_tensor_borrow(data, sizeof data, SMELT_FLOAT32, 2, sizes, given, 0);
    smelt_array a;
    ASSERT_EQ(smelt_tensor_describe(t, &a), SMELT_OK);
    EXPECT_EQ(a.flags, given == row_major ? SMELT_ARRAY_ROW_MAJOR : 0u);
    EXPECT_EQ(a.strides[0], given[0]);
    smelt_tensor_release(t);
  }
}

TEST(DLPackTest, EmptyAndScalarTensorsAreTaken) {
  Unversioned scalar({});
  smelt_tensor* t = nullptr;
  EXPECT_EQ(smelt_tensor_from_dlpack(&scalar.managed, &t), SMELT_OK) << smelt_last_error();
  EXPECT_EQ(smelt_tensor_rank(t), 0);
  smelt_tensor_release(t);
  Unversioned small({0, 3});
  small.managed.dl_tensor.data = nullptr;
  EXPECT_EQ(smelt_tensor_from_dlpack(&small.managed, &t), SMELT_OK) << smelt_last_error();
  smelt_tensor_release(t);
}

TEST(DLPackTest, WhatIsRefusedStaysTheCallers) {
  const auto refuse = [](Unversioned& f, const char* why) {
    smelt_tensor* t = nullptr;
    EXPECT_EQ(smelt_tensor_from_dlpack(&f.managed, &t), SMELT_INVALID_ARGUMENT) << why;
    EXPECT_THAT(smelt_last_error(), HasSubstr(why));
    EXPECT_EQ(t, nullptr);
    EXPECT_EQ(f.deleted, 0);
  };
  Unversioned gpu({3}), lanes({3}), bits({3}), negative({3}, {-1}), size({-1}), huge({INT64_MAX, 4}), null({3}),
      odd({2});
  gpu.managed.dl_tensor.device.device_type = static_cast<DLDeviceType>(4);
  refuse(gpu, "device type 4");
  lanes.managed.dl_tensor.dtype.lanes = 4;
  refuse(lanes, "4 lanes");
  bits.managed.dl_tensor.dtype.bits = 8;
  refuse(bits, "8 bits");
  refuse(negative, "negative");
  refuse(size, "out of range");
  refuse(huge, "out of range");
  null.managed.dl_tensor.data = nullptr;
  refuse(null, "no memory");
  odd.managed.dl_tensor.byte_offset = 2;
  refuse(odd, "not aligned");
  Unversioned rank({3});
  rank.managed.dl_tensor.ndim = -1;
  refuse(rank, "out of range");
}

TEST(DLPackTest, VersionsAndTheReadOnlyFlagAreHeard) {
  Versioned f({4});
  f.managed.flags = kDLPackFlagReadOnly;
  smelt_tensor* t = nullptr;
  ASSERT_EQ(smelt_tensor_from_dlpack_versioned(&f.managed, &t), SMELT_OK) << smelt_last_error();
  EXPECT_TRUE(smelt_tensor_is_read_only(t));
  DLManagedTensor* plain = nullptr;
  EXPECT_EQ(smelt_tensor_to_dlpack(t, &plain), SMELT_FAILED_PRECONDITION);
  DLManagedTensorVersioned* out = nullptr;
  ASSERT_EQ(smelt_tensor_to_dlpack_versioned(t, &out), SMELT_OK);
  EXPECT_EQ(out->flags, kDLPackFlagReadOnly);
  EXPECT_EQ(out->version.major, 1u);
  smelt_tensor_release(t);
  EXPECT_EQ(f.deleted, 0);  // what was handed on keeps it
  EXPECT_EQ(static_cast<const float*>(out->dl_tensor.data)[3], 3);
  out->deleter(out);
  EXPECT_EQ(f.deleted, 1);
  Versioned newer({4});
  newer.managed.version = {2, 0};
  EXPECT_EQ(smelt_tensor_from_dlpack_versioned(&newer.managed, &t), SMELT_UNIMPLEMENTED);
}

TEST(DLPackTest, AReadOnlyTensorIsNoArgumentThatTheModelWrites) {
  size_t size;
  const void* bytes = c_test_bundle(&size);
  smelt_program* program = nullptr;
  smelt_instance* instance = nullptr;
  ASSERT_EQ(smelt_program_load_from_memory(bytes, size, &program), SMELT_OK);
  ASSERT_EQ(smelt_instance_create(program, nullptr, &instance), SMELT_OK);
  Versioned f({4});
  f.values[0] = -5;
  f.managed.flags = kDLPackFlagReadOnly;
  smelt_value arg, out[2];
  std::memset(&arg, 0, sizeof arg);
  arg.kind = SMELT_KIND_TENSOR;
  ASSERT_EQ(smelt_tensor_from_dlpack_versioned(&f.managed, &arg.value.tensor), SMELT_OK);
  size_t count = 2;
  EXPECT_EQ(smelt_instance_run(instance, &arg, 1, out, &count), SMELT_INVALID_ARGUMENT);
  EXPECT_THAT(smelt_last_error(), HasSubstr("read-only"));
  EXPECT_EQ(f.values[0], -5);
  smelt_tensor_release(arg.value.tensor);
  smelt_instance_release(instance);
  smelt_program_release(program);
}

TEST(DLPackTest, AResultGoesOutWithoutACopy) {
  const int64_t sizes[] = {2, 3};
  smelt_tensor* t = smelt_tensor_create(SMELT_BFLOAT16, 2, sizes);
  DLManagedTensor* out = nullptr;
  ASSERT_EQ(smelt_tensor_to_dlpack(t, &out), SMELT_OK);
  EXPECT_EQ(out->dl_tensor.data, smelt_tensor_data(t));
  EXPECT_EQ(out->dl_tensor.dtype.code, kDLBfloat);
  EXPECT_EQ(out->dl_tensor.dtype.bits, 16);
  EXPECT_EQ(out->dl_tensor.ndim, 2);
  EXPECT_EQ(out->dl_tensor.shape[1], 3);
  EXPECT_EQ(out->dl_tensor.strides[0], 3);
  smelt_tensor_release(t);
  std::memset(out->dl_tensor.data, 1, 12);
  out->deleter(out);
}

}  // namespace
}  // namespace smelt
