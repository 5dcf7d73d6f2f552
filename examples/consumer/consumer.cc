// Runs two PyTorch models in one C++ program: a classifier that is linked into it, and an attention layer with its
// cache in buffers, whose bundle is a file next to it. Their inputs and outputs are types of this program.
//
//   consumer [ATTENTION.smb]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <utility>

#include "attention.h"
#include "digits.h"

namespace {

// Returns the value, or ends the program with the error.
template <typename T>
T OrDie(absl::StatusOr<T> value, const char* what) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "consumer: %s: %s\n", what, std::string(value.status().message()).c_str());
  std::exit(1);
}

// Two images of scikit-learn's digits that are not in the network's training data; a value of 16 is full ink.
struct Image {
  int label;
  int ink[8][8];
};
constexpr Image kImages[] = {
    {4,
     {{0, 0, 2, 15, 12, 0, 0, 0},
      {0, 0, 9, 16, 5, 0, 2, 0},
      {0, 2, 15, 10, 0, 11, 16, 1},
      {0, 10, 16, 4, 6, 16, 10, 0},
      {0, 6, 16, 16, 16, 15, 1, 0},
      {0, 0, 6, 13, 16, 4, 0, 0},
      {0, 0, 0, 15, 13, 0, 0, 0},
      {0, 0, 6, 16, 5, 0, 0, 0}}},
    {2,
     {{0, 0, 6, 13, 10, 3, 0, 0},
      {0, 5, 15, 11, 16, 11, 0, 0},
      {0, 2, 6, 0, 16, 12, 0, 0},
      {0, 0, 0, 0, 16, 12, 0, 0},
      {0, 0, 0, 7, 16, 6, 0, 0},
      {0, 0, 5, 15, 10, 0, 0, 0},
      {0, 0, 11, 16, 8, 4, 0, 0},
      {0, 0, 8, 14, 13, 12, 4, 0}}},
};

// Returns the number of images that are recognized.
int ClassifyDigits() {
  const digits::Model model = OrDie(digits::Model::Load(), "digits");
  digits::Session session = OrDie(model.NewSession(), "digits");
  const int n = static_cast<int>(std::size(kImages));
  auto images = decltype(digits::Inputs::images)::Empty(n);  // the first size varies
  for (int i = 0; i < n; ++i) {
    for (int y = 0; y < 8; ++y) {
      for (int x = 0; x < 8; ++x) images.at(i, 0, y, x) = static_cast<float>(kImages[i].ink[y][x]) / 16;
    }
  }
  const digits::Outputs out = OrDie(session.Run({.images = images}), "digits");
  int right = 0;
  for (int i = 0; i < n; ++i) {
    int best = 0;
    for (int k = 1; k < 10; ++k) best = out.linear_1.at(i, k) > out.linear_1.at(i, best) ? k : best;
    std::printf("image %d: a %d, expected a %d\n", i, best, kImages[i].label);
    right += best == kImages[i].label;
  }
  return right;
}

// Attends to two tokens, one after the other: the second result depends on what the first call stored in the cache.
bool AttendTwice(const std::string& bundle) {
  const attention::Model model = OrDie(attention::Model::Load(bundle), "attention");
  attention::Session session = OrDie(model.NewSession(), "attention");
  attention::Session forgetful = OrDie(model.NewSession(), "attention");
  auto x = decltype(attention::Inputs::x)::Empty();
  auto position = decltype(attention::Inputs::position)::Empty();
  x.Fill(1);
  position.Fill(0);
  (void)OrDie(session.Run({.x = x, .position = position}), "attention");
  x.Fill(-1);
  position.Fill(1);
  const auto with_memory = OrDie(session.Run({.x = x, .position = position}), "attention");
  const auto without = OrDie(forgetful.Run({.x = x, .position = position}), "attention");
  double difference = 0;
  for (int i = 0; i < 64; ++i) {
    difference += std::fabs(with_memory.linear_1.at(0, 0, i) - without.linear_1.at(0, 0, i));
  }
  std::printf("what the first token changed in the second's answer: %.3f\n", difference);
  return difference > 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool right = ClassifyDigits() == static_cast<int>(std::size(kImages));
  const bool remembers = AttendTwice(argc > 1 ? argv[1] : attention::Model::kBundlePath);
  std::puts(right && remembers ? "well" : "WRONG");
  return right && remembers ? 0 : 1;
}
