// Writes a model as TorchScript's text (.ir) or as an export archive (.pt2), from one description.
//
//   ModelWriter m("mlp_1");
//   Tensor x = m.Input("x", {4, 8});
//   Tensor w = m.Weight("w", {16, 8});
//   Tensor y = m.Op("aten::linear", "aten.linear.default", {{"input", x}, {"weight", w}}, {4, 16});
//   m.Output(m.Op("aten::relu_", "aten.relu_.default", {{"self", y}}, {4, 16}));
//   m.WritePt2("mlp_1.pt2");
#ifndef SMELT_BENCH_MODEL_WRITER_H_
#define SMELT_BENCH_MODEL_WRITER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace smelt::bench {

// A float32 value of the model.
struct Tensor {
  std::string name;
  std::vector<int64_t> sizes;
};
using Attribute = std::variant<Tensor, int64_t, double, bool, std::vector<int64_t>>;
using Arguments = std::vector<std::pair<std::string, Attribute>>;  // in the schema's order, by its names

class ModelWriter {
 public:
  explicit ModelWriter(std::string name) : name_(std::move(name)) {}

  Tensor Input(const std::string& name, std::vector<int64_t> sizes);
  // A parameter, or with `buffer` a weight that the model writes. In text, where weights have no contents, it is an
  // input.
  Tensor Weight(const std::string& name, std::vector<int64_t> sizes, bool buffer = false);
  // `text` is the operator in the text form, `target` in an archive (without "torch.ops."). Strides of the result are
  // row-major unless given.
  Tensor Op(const std::string& text, const std::string& target, Arguments arguments, std::vector<int64_t> sizes,
            std::vector<int64_t> strides = {});
  void Output(const Tensor& t) { outputs_.push_back(t.name); }

  bool WriteText(const std::string& path) const;
  bool WritePt2(const std::string& path) const;

 private:
  struct Value {
    enum Kind { kInput, kParameter, kBuffer, kResult } kind;
    std::string name;
    std::vector<int64_t> sizes, strides;
  };
  struct Node {
    std::string text, target, result;
    Arguments arguments;
  };
  std::string ProgramJson() const;
  std::string WeightsJson() const;
  Tensor Add(Value::Kind kind, const std::string& name, std::vector<int64_t> sizes, std::vector<int64_t> strides);

  std::string name_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<std::string> outputs_;
};

}  // namespace smelt::bench

#endif  // SMELT_BENCH_MODEL_WRITER_H_
