// Trains the digits network without Python. digits_train_step.pt2 is one step (forward, backward and in-place SGD on
// the parameters, which are buffers), as exported by PyTorch. Compiles it, runs 100 steps, compares each loss with
// PyTorch's, then puts the parameters into the network and counts the correct predictions on images that are not in the
// training data.
//
//   ./bazelw run //examples/train
//   train STEP.pt2 TRAINING.safetensors NETWORK.pt2 HELD_OUT.safetensors
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/frontend/pt2.h"
#include "smelt/pipeline/compile.h"
#include "smelt/runtime/program.h"
#include "smelt/runtime/safetensors.h"

namespace smelt {
namespace {

// PyTorch adds in another order, and a hundred steps amplify the differences in the last bits.
constexpr double kLossTolerance = 1e-4;

double Milliseconds(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

absl::StatusOr<std::unique_ptr<Instance>> Compile(const Graph& graph, const std::string& bundle) {
  SMELT_RETURN_IF_ERROR(CompileToFile(graph, bundle, {}).status());
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(bundle));
  return Instance::Create(program);
}

struct Training {
  Tensor images, labels, batches, losses;
};

// Returns the images of a batch, scaled from [0, 16] to [0, 1], and their labels.
std::vector<Datum> Batch(const Training& t, int step) {
  const int64_t size = t.batches.sizes()[1], pixels = t.images.NumElements() / t.images.sizes()[0];
  Tensor images = Tensor::Empty(DType::kFloat32, {size, 1, t.images.sizes()[2], t.images.sizes()[3]});
  Tensor labels = Tensor::Empty(DType::kInt64, {size});
  for (int64_t k = 0; k < size; ++k) {
    const int64_t i = t.batches.data_as<int64_t>()[step * size + k];
    for (int64_t p = 0; p < pixels; ++p)
      images.data_as<float>()[k * pixels + p] = t.images.data_as<uint8_t>()[i * pixels + p] / 16.0f;
    labels.data_as<int64_t>()[k] = t.labels.data_as<int64_t>()[i];
  }
  return {images, labels};
}

// Returns whether every loss equals PyTorch's. Stores the trained parameters in *trained, by name.
absl::StatusOr<bool> Train(Instance& step, const Program& program, const Training& data,
                           std::map<std::string, Tensor>* trained) {
  const int steps = static_cast<int>(data.batches.sizes()[0]);
  double worst = 0, milliseconds = 0;
  std::printf("%6s %10s %10s\n", "step", "loss", "PyTorch's");
  for (int i = 0; i < steps; ++i) {
    const std::vector<Datum> batch = Batch(data, i);
    const auto start = std::chrono::steady_clock::now();
    SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, step.Run(batch));
    milliseconds += Milliseconds(start);
    if (outputs.size() != 1 || !outputs[0].IsTensor() || outputs[0].tensor().NumElements() != 1)
      return absl::InternalError("a step does not return its loss");
    const float loss = *outputs[0].tensor().data_as<float>(), pytorch = data.losses.data_as<float>()[i];
    // Negated, because a NaN loss is never close.
    if (!(std::fabs(loss - pytorch) <= worst)) worst = std::fabs(loss - pytorch);
    if (i % 10 == 0 || i == steps - 1) std::printf("%6d %10.4f %10.4f\n", i, loss, pytorch);
  }
  std::printf("%d steps in %.1f ms; losses differ from PyTorch's by at most %.2g\n", steps, milliseconds, worst);
  for (size_t s = 0; s < program.states().size(); ++s)
    (*trained)[program.states()[s].name] = step.state(static_cast<int>(s)).Clone();
  return worst <= kLossTolerance;
}

// Puts the trained parameters into the network: its weights are named "conv1.weight", the step's buffers
// "conv1_weight".
absl::Status PutParameters(const std::map<std::string, Tensor>& trained, Graph& network) {
  for (const Weight& w : network.weights) {
    auto it = trained.find(absl::StrReplaceAll(w.name, {{".", "_"}}));
    if (it == trained.end()) return absl::NotFoundError(absl::StrCat("no trained parameter is ", w.name));
    const Tensor& from = it->second;
    if (from.dtype() != w.dtype || !w.geometry.IsContiguous() || w.geometry.offset != 0 ||
        from.geometry().sizes != w.geometry.sizes)
      return absl::InvalidArgumentError(absl::StrCat(w.name, " is of another size than the trained one"));
    network.weight_storages[w.storage] = from.storage();
  }
  return absl::OkStatus();
}

absl::Status CountRight(Instance& network, const std::string& images_path) {
  SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(images_path));
  SMELT_ASSIGN_OR_RETURN(Tensor images, file->ReadTensor("images"));
  SMELT_ASSIGN_OR_RETURN(Tensor labels, file->ReadTensor("labels"));
  SMELT_ASSIGN_OR_RETURN(std::vector<Datum> outputs, network.Run({images}));
  const int64_t count = images.sizes()[0];
  if (outputs.size() != 1 || !outputs[0].IsTensor() || outputs[0].tensor().NumElements() != 10 * count)
    return absl::InternalError("the network does not return 10 logits an image");
  const Tensor logits = outputs[0].tensor().Clone();
  int right = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float* row = logits.data_as<float>() + 10 * i;
    right += std::max_element(row, row + 10) - row == labels.data_as<int64_t>()[i];
  }
  std::printf("accuracy on images it has not seen: %d of %d (%.1f %%)\n", right, static_cast<int>(count),
              100.0 * right / static_cast<double>(count));
  return absl::OkStatus();
}

absl::StatusOr<bool> TrainAndCount(const char* const* files, const std::string& folder) {
  auto start = std::chrono::steady_clock::now();
  SMELT_ASSIGN_OR_RETURN(Pt2Model model, ReadPt2(files[0]));
  SMELT_RETURN_IF_ERROR(CompileToFile(*model.graph, folder + "/step.smb", {}).status());
  SMELT_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(folder + "/step.smb"));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> step, Instance::Create(program));
  std::printf("%s: compiled in %.0f ms\n", files[0], Milliseconds(start));

  SMELT_ASSIGN_OR_RETURN(auto file, SafetensorsFile::Read(files[1]));
  Training data;
  SMELT_ASSIGN_OR_RETURN(data.images, file->ReadTensor("images"));
  SMELT_ASSIGN_OR_RETURN(data.labels, file->ReadTensor("labels"));
  SMELT_ASSIGN_OR_RETURN(data.batches, file->ReadTensor("batches"));
  SMELT_ASSIGN_OR_RETURN(data.losses, file->ReadTensor("losses"));
  std::map<std::string, Tensor> trained;
  SMELT_ASSIGN_OR_RETURN(bool equal, Train(*step, *program, data, &trained));

  SMELT_ASSIGN_OR_RETURN(Pt2Model network, ReadPt2(files[2]));
  SMELT_RETURN_IF_ERROR(PutParameters(trained, *network.graph));
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<Instance> instance, Compile(*network.graph, folder + "/network.smb"));
  SMELT_RETURN_IF_ERROR(CountRight(*instance, files[3]));
  return equal;
}

int Main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: %s STEP.pt2 TRAINING.safetensors NETWORK.pt2 HELD_OUT.safetensors\n", argv[0]);
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "smelt-train-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "train: no temporary folder can be made\n");
    return 6;
  }
  const absl::StatusOr<bool> equal = TrainAndCount(argv + 1, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!equal.ok()) {
    std::fprintf(stderr, "train: %s\n", std::string(equal.status().message()).c_str());
    return 1;
  }
  if (!*equal) std::fprintf(stderr, "train: not all losses are PyTorch's\n");
  return *equal ? 0 : 1;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) { return smelt::Main(argc, argv); }
