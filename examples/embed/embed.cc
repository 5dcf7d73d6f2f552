// The smallest program that runs bundles, and all that an application must link. Prints the inputs and outputs of the
// bundle, calls it once with zeros, and prints the outputs' sizes.
//
//   embed MODEL.smb
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "smelt/runtime/program.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s MODEL.smb\n", argv[0]);
    return 2;
  }
  auto program = smelt::Program::Load(argv[1]);
  if (!program.ok()) {
    std::fprintf(stderr, "embed: %s\n", std::string(program.status().message()).c_str());
    return 3;
  }
  auto instance = smelt::Instance::Create(*program);
  if (!instance.ok()) {
    std::fprintf(stderr, "embed: %s\n", std::string(instance.status().message()).c_str());
    return 6;
  }
  std::vector<smelt::Datum> args;
  for (const smelt::ArgInfo& a : (*program)->args()) {
    if (a.kind != smelt::ValueKind::kTensor) {
      args.push_back(smelt::Datum());
      continue;
    }
    std::vector<int64_t> sizes = a.sizes;
    for (int64_t& n : sizes) n = n < 0 ? 2 : n;  // a size that varies
    smelt::Tensor t = smelt::Tensor::Empty(a.dtype, sizes);
    std::memset(t.storage()->data(), 0, static_cast<size_t>(t.storage()->bytes()));
    args.push_back(t);
    std::printf("takes %s\n", a.name.c_str());
  }
  auto outputs = (*instance)->Run(args);
  if (!outputs.ok()) {
    std::fprintf(stderr, "embed: %s\n", std::string(outputs.status().message()).c_str());
    return 7;
  }
  for (const smelt::Datum& v : *outputs) {
    if (v.IsTensor()) std::printf("returns %s\n", v.tensor().geometry().ToString().c_str());
  }
  return 0;
}
