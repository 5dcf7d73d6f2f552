// The C++17 interface. Prints the check that fails; exit 0 if none does.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "smelt/runtime/smelt.hpp"
#include "smelt/runtime/testing/c_bundle.h"

static int failures = 0;
#define CHECK(condition)                                          \
  do {                                                            \
    if (!(condition)) {                                           \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                 \
    }                                                             \
  } while (0)

// The status of the smelt::Error that it throws; SMELT_OK if it throws none.
template <typename F>
static smelt_status StatusOf(const F& f) {
  try {
    f();
  } catch (const smelt::Error& e) {
    CHECK(std::string(e.what()) != "");
    return e.status();
  }
  return SMELT_OK;
}

int main() {
  CHECK(StatusOf([] { smelt::Program("/nonexistent.smb"); }) == SMELT_NOT_FOUND);
  size_t size;
  const void* bytes = c_test_bundle(&size);
  CHECK(StatusOf([&] { smelt::Program::FromMemory(bytes, size - 1); }) == SMELT_DATA_LOSS);
  const smelt::Program program = smelt::Program::FromMemory(bytes, size);
  CHECK(program.info().num_args == 1 && std::string(program.info().model_name) == "hand");
  CHECK(program.args().size() == 1 && program.args()[0].dims[0].size == 4 &&
        program.args()[0].effects == SMELT_WRITES_DATA);
  CHECK(program.results().size() == 2 && std::string(program.results()[1].name) == "logits");
  CHECK(program.states().size() == 1 && std::string(program.states()[0].name) == "unused");

  smelt::Instance instance(program);
  float data[4] = {-1, 2, -3, 4};
  const smelt::Tensor x = smelt::Tensor::Borrow(data, {4});
  const std::vector<smelt::Value> results = instance.Run({x});
  CHECK(data[0] == 0 && data[1] == 2 && data[2] == 0 && data[3] == 4);
  CHECK(results[0].tensor().IsSame(x) && !results[1].tensor().SharesStorage(x));
  CHECK(results[1].tensor().data<float>()[3] == 5 && results[1].tensor().sizes() == std::vector<int64_t>{4} &&
        results[1].tensor().strides() == std::vector<int64_t>{1} && results[1].tensor().NumElements() == 4);
  CHECK(StatusOf([&] { results[1].as_int(); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { results[1].tensor().data<double>(); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { instance.Run({}); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { instance.Run({3}); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { instance.Run({"text"}); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { x.View({5}, {1}, 0); }) == SMELT_INVALID_ARGUMENT);
  CHECK(x.View({2}, {2}, 1).data<float>()[2] == 4);
  CHECK(std::string(instance.LastCall().variant) == "distinct");

  const smelt::Tensor state = instance.State("unused");
  CHECK(state.data<float>()[1] == 6 && state.IsReadOnly());
  CHECK(StatusOf([&] { instance.SetState("unused", state); }) == SMELT_FAILED_PRECONDITION);
  CHECK(StatusOf([&] { instance.State("other"); }) == SMELT_NOT_FOUND);
  instance.Seed(1);
  instance.Reset();

  // Saved states are those that calls may write: none here.
  const char* folder = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(folder != nullptr ? folder : "/tmp") + "/states.safetensors";
  instance.SaveStates(path);
  instance.LoadStates(path);
  CHECK(StatusOf([&] { instance.LoadStates(path + ".not"); }) == SMELT_NOT_FOUND);
  CHECK(smelt::Value("text").as_string() == "text" && smelt::Value(true).as_bool() &&
        smelt::Value(0.5).as_float() == 0.5 && smelt::Value(std::complex<double>(1, 2)).as_complex().imag() == 2 &&
        smelt::Value().IsNone());
  CHECK(smelt::Tensor::Create<int64_t>({2, 3}).dtype() == SMELT_INT64);

  // A method finds what another one has written.
  bytes = c_methods_bundle(&size);
  const smelt::Program methods = smelt::Program::FromMemory(bytes, size);
  CHECK(methods.method_names() == (std::vector<std::string>{"fill", "read"}));
  CHECK(methods.args().empty() && methods.Method("read").args().size() == 1);
  CHECK(StatusOf([&] { methods.Method("write"); }) == SMELT_NOT_FOUND);
  smelt::Instance all(methods);
  smelt::Instance fill = all.Method("fill"), read = all.Method("read");
  std::vector<float> three = {10, 20, 30};
  const smelt::Tensor filled = smelt::Tensor::Borrow(three.data(), {3});
  CHECK(StatusOf([&] { all.Run({filled}); }) == SMELT_INVALID_ARGUMENT);
  CHECK(StatusOf([&] { all.Method("write"); }) == SMELT_NOT_FOUND);
  fill.Run({filled});
  const std::vector<smelt::Value> sums = read.Run({filled});
  CHECK(sums[0].tensor().data<float>()[2] == 31 && sums[1].as_int() == 3);
  CHECK(all.State("cache").IsSame(read.State("cache")));
  if (failures == 0) std::puts("ok");
  return failures != 0;
}
