// Runs a model that calls operators of its author's own: custom_operators smoother.smb
#include <cstdio>
#include <vector>

#include "operators.h"
#include "smelt/runtime/smelt.hpp"

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: custom_operators smoother.smb\n"), 2;
  try {
    smelt::RegisterOperator("mylib::push_", mylib::Push);
    smelt::RegisterOperator("mylib::soft_clip", mylib::SoftClip);
    const smelt::Program program(argv[1]);
    smelt::Instance instance(program);
    std::vector<float> row(6), gain(6, 2);
    for (int call = 1; call <= 3; ++call) {
      for (float& v : row) v = static_cast<float>(call);
      const std::vector<smelt::Value> results =
          instance.Run({smelt::Tensor::Borrow(row.data(), {6}), smelt::Tensor::Borrow(gain.data(), {6})});
      std::printf("mean %.6f, newest %.1f\n", results[0].tensor().data<float>()[0],
                  results[1].tensor().data<float>()[0]);
    }
    return 0;
  } catch (const smelt::Error& e) {
    return std::fprintf(stderr, "%s\n", e.what()), 1;
  }
}
