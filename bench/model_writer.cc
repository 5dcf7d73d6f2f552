#include "smelt/bench/model_writer.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"

namespace smelt::bench {
namespace {

using Json = nlohmann::ordered_json;

std::vector<int64_t> RowMajor(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> out(sizes.size(), 1);
  for (size_t d = sizes.size(); d-- > 1;) out[d - 1] = out[d] * sizes[d];
  return out;
}
int64_t Bytes(const std::vector<int64_t>& sizes) {
  int64_t n = 4;
  for (int64_t s : sizes) n *= s;
  return n;
}

Json Ints(const std::vector<int64_t>& v) {
  Json out = Json::array();
  for (int64_t n : v) out.push_back({{"as_int", n}});
  return out;
}
Json TensorMeta(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  return {{"dtype", 7},  // float32
          {"sizes", Ints(sizes)},
          {"requires_grad", false},
          {"device", {{"type", "cpu"}, {"index", nullptr}}},
          {"strides", Ints(strides)},
          {"storage_offset", {{"as_int", 0}}},
          {"layout", 7}};
}

// Writes stored entries whose contents begin at multiples of 64 bytes, as PyTorch writes them; less than 4 GiB in all.
class ZipFile {
 public:
  explicit ZipFile(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {}
  bool ok() const { return file_ != nullptr && good_; }

  void Add(const std::string& name, const std::string& contents) {
    Add(name, [&](auto append) { append(contents.data(), contents.size()); });
  }
  // `fill` is given a function that appends bytes.
  void Add(const std::string& name, const std::function<void(std::function<void(const char*, size_t)>)>& fill) {
    if (!ok()) return;
    const uint32_t local = static_cast<uint32_t>(at_);
    const uint64_t begin = at_ + 30 + name.size();
    const size_t pad = 4 + (64 - (begin + 4) % 64) % 64;  // an extra field of its own
    Write(Header(name, 0, 0, pad));
    std::string extra = "FB";
    extra.push_back(static_cast<char>(pad - 4));
    extra.append(pad - 3, '\0');
    Write(name + extra);
    const uint64_t contents = at_;
    uint32_t crc = 0;
    fill([&](const char* data, size_t size) {
      crc = static_cast<uint32_t>(crc32(crc, reinterpret_cast<const Bytef*>(data), static_cast<uInt>(size)));
      Write({data, size});
    });
    const uint32_t size = static_cast<uint32_t>(at_ - contents);
    std::fseek(file_, local, SEEK_SET);
    const std::string header = Header(name, crc, size, pad);
    good_ = good_ && std::fwrite(header.data(), 1, header.size(), file_) == header.size();
    std::fseek(file_, 0, SEEK_END);
    std::string central = "PK\x01\x02";
    Put(central, 20, 2);
    central += header.substr(4, 24);  // up to the name's length
    Put(central, 0, 2);               // no extra field here
    Put(central, 0, 2 + 2 + 2 + 4);   // comment, disk, attributes
    Put(central, local, 4);
    directory_ += central + name;
    ++entries_;
  }

  bool Finish() {
    if (file_ == nullptr) return false;
    const uint64_t start = at_;
    std::string end = "PK\x05\x06";
    Put(end, 0, 4);
    Put(end, entries_, 2);
    Put(end, entries_, 2);
    Put(end, directory_.size(), 4);
    Put(end, start, 4);
    Put(end, 0, 2);
    Write(directory_ + end);
    good_ = std::fclose(file_) == 0 && good_ && start < 0xffffffff;
    file_ = nullptr;
    return good_;
  }

 private:
  static void Put(std::string& out, uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(v >> (8 * i)));
  }
  static std::string Header(const std::string& name, uint32_t crc, uint32_t size, size_t pad) {
    std::string out = "PK\x03\x04";
    Put(out, 20, 2);
    Put(out, 0, 2 + 2 + 4);  // flags, method, time
    Put(out, crc, 4);
    Put(out, size, 4);
    Put(out, size, 4);
    Put(out, name.size(), 2);
    Put(out, pad, 2);
    return out;
  }
  void Write(std::string_view bytes) {
    good_ = good_ && std::fwrite(bytes.data(), 1, bytes.size(), file_) == bytes.size();
    at_ += bytes.size();
  }

  std::FILE* file_;
  bool good_ = true;
  uint64_t at_ = 0;
  int entries_ = 0;
  std::string directory_;
};

// Writes small numbers, different for each weight.
void FillWeight(int64_t bytes, uint64_t seed, const std::function<void(const char*, size_t)>& append) {
  std::vector<float> block(1 << 16);
  uint64_t state = seed * 0x9e3779b97f4a7c15 + 1;
  for (int64_t left = bytes; left > 0;) {
    for (float& v : block) {
      state ^= state << 13;
      state ^= state >> 7;
      state ^= state << 17;
      v = static_cast<float>(static_cast<int32_t>(state >> 40) - (1 << 23)) * 0x1p-27f;
    }
    const size_t n = static_cast<size_t>(std::min<int64_t>(left, static_cast<int64_t>(block.size() * 4)));
    append(reinterpret_cast<const char*>(block.data()), n);
    left -= static_cast<int64_t>(n);
  }
}

std::string TypeText(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides) {
  return absl::StrCat("Float(", absl::StrJoin(sizes, ", "), sizes.empty() ? "" : ", ", "strides=[",
                      absl::StrJoin(strides, ", "), "])");
}

}  // namespace

Tensor ModelWriter::Add(Value::Kind kind, const std::string& name, std::vector<int64_t> sizes,
                        std::vector<int64_t> strides) {
  if (strides.empty()) strides = RowMajor(sizes);
  values_.push_back({kind, name, sizes, strides});
  return {name, std::move(sizes)};
}
Tensor ModelWriter::Input(const std::string& name, std::vector<int64_t> sizes) {
  return Add(Value::kInput, name, std::move(sizes), {});
}
Tensor ModelWriter::Weight(const std::string& name, std::vector<int64_t> sizes, bool buffer) {
  return Add(buffer ? Value::kBuffer : Value::kParameter, name, std::move(sizes), {});
}
Tensor ModelWriter::Op(const std::string& text, const std::string& target, Arguments arguments,
                       std::vector<int64_t> sizes, std::vector<int64_t> strides) {
  const std::string result = absl::StrCat("v", nodes_.size());
  nodes_.push_back({text, target, result, std::move(arguments)});
  return Add(Value::kResult, result, std::move(sizes), std::move(strides));
}

bool ModelWriter::WriteText(const std::string& path) const {
  std::vector<std::string> inputs;
  for (const Value& v : values_) {
    if (v.kind != Value::kResult) inputs.push_back(absl::StrCat("%", v.name, " : ", TypeText(v.sizes, v.strides)));
  }
  std::string out = absl::StrCat("graph(", absl::StrJoin(inputs, ",\n      "), "):\n");
  int constants = 0;
  for (const Node& n : nodes_) {
    std::vector<std::string> operands;
    for (const auto& [name, a] : n.arguments) {
      if (const Tensor* t = std::get_if<Tensor>(&a)) {
        operands.push_back("%" + t->name);
        continue;
      }
      std::string type, value;
      if (const int64_t* i = std::get_if<int64_t>(&a)) {
        type = "int";
        value = absl::StrCat(*i);
      } else if (const double* d = std::get_if<double>(&a)) {
        type = "float";
        value = absl::StrFormat("%.9g", *d);
        if (value.find_first_of(".e") == std::string::npos) value += ".";
      } else if (const bool* b = std::get_if<bool>(&a)) {
        type = "bool";
        value = *b ? "1" : "0";
      } else {
        type = "int[]";
        value = absl::StrCat("[", absl::StrJoin(std::get<std::vector<int64_t>>(a), ", "), "]");
      }
      absl::StrAppend(&out, "  %c", constants, " : ", type, " = prim::Constant[value=", value, "]()\n");
      operands.push_back(absl::StrCat("%c", constants++));
    }
    absl::StrAppend(&out, "  %", n.result, " : Tensor = ", n.text, "(", absl::StrJoin(operands, ", "), ")\n");
  }
  absl::StrAppend(&out, "  return (%", absl::StrJoin(outputs_, ", %"), ")\n");
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return false;
  const bool written = std::fwrite(out.data(), 1, out.size(), file) == out.size();
  return std::fclose(file) == 0 && written;
}

std::string ModelWriter::ProgramJson() const {
  Json inputs = Json::array(), input_specs = Json::array(), tensors = Json::object(), nodes = Json::array();
  // PyTorch's order: parameters, buffers, user inputs.
  for (Value::Kind kind : {Value::kParameter, Value::kBuffer, Value::kInput}) {
    for (const Value& v : values_) {
      if (v.kind != kind) continue;
      inputs.push_back({{"as_tensor", {{"name", v.name}}}});
      const Json arg = {{"name", v.name}};
      if (kind == Value::kParameter) {
        input_specs.push_back({{"parameter", {{"arg", arg}, {"parameter_name", v.name}}}});
      } else if (kind == Value::kBuffer) {
        input_specs.push_back({{"buffer", {{"arg", arg}, {"buffer_name", v.name}, {"persistent", true}}}});
      } else {
        input_specs.push_back({{"user_input", {{"arg", {{"as_tensor", arg}}}}}});
      }
    }
  }
  for (const Value& v : values_) tensors[v.name] = TensorMeta(v.sizes, v.strides);
  for (const Node& n : nodes_) {
    Json arguments = Json::array();
    for (const auto& [name, a] : n.arguments) {
      Json arg;
      if (const Tensor* t = std::get_if<Tensor>(&a)) {
        arg = {{"as_tensor", {{"name", t->name}}}};
      } else if (const int64_t* i = std::get_if<int64_t>(&a)) {
        arg = {{"as_int", *i}};
      } else if (const double* d = std::get_if<double>(&a)) {
        arg = {{"as_float", *d}};
      } else if (const bool* b = std::get_if<bool>(&a)) {
        arg = {{"as_bool", *b}};
      } else {
        arg = {{"as_ints", std::get<std::vector<int64_t>>(a)}};
      }
      arguments.push_back({{"name", name}, {"arg", arg}, {"kind", 1}});
    }
    nodes.push_back({{"target", "torch.ops." + n.target},
                     {"inputs", arguments},
                     {"outputs", Json::array({{{"as_tensor", {{"name", n.result}}}}})},
                     {"metadata", Json::object()},
                     {"is_hop_single_tensor_return", nullptr},
                     {"name", n.result}});
  }
  Json outputs = Json::array(), output_specs = Json::array();
  for (const std::string& o : outputs_) {
    outputs.push_back({{"as_tensor", {{"name", o}}}});
    output_specs.push_back({{"user_output", {{"arg", {{"as_tensor", {{"name", o}}}}}}}});
  }
  Json graph = {{"inputs", inputs},
                {"outputs", outputs},
                {"nodes", nodes},
                {"tensor_values", tensors},
                {"sym_int_values", Json::object()},
                {"sym_bool_values", Json::object()},
                {"is_single_tensor_return", false},
                {"custom_obj_values", Json::object()},
                {"sym_float_values", Json::object()}};
  Json module = {{"graph", graph},
                 {"signature", {{"input_specs", input_specs}, {"output_specs", output_specs}}},
                 {"module_call_graph", Json::array()},
                 {"metadata", Json::object()},
                 {"treespec_namedtuple_fields", Json::object()}};
  return Json{{"graph_module", module},
              {"opset_version", {{"aten", 10}}},
              {"range_constraints", Json::object()},
              {"schema_version", {{"major", 8}, {"minor", 20}}},
              {"verifiers", Json::array({"TRAINING"})},
              {"torch_version", "2.13.0"},
              {"guards_code", Json::array()}}
      .dump();
}

std::string ModelWriter::WeightsJson() const {
  Json config = Json::object();
  int number = 0;
  for (const Value& v : values_) {
    if (v.kind != Value::kParameter && v.kind != Value::kBuffer) continue;
    config[v.name] = {{"path_name", absl::StrCat("weight_", number++)},
                      {"is_param", v.kind == Value::kParameter},
                      {"use_pickle", false},
                      {"tensor_meta", TensorMeta(v.sizes, v.strides)}};
  }
  return Json{{"config", config}}.dump();
}

bool ModelWriter::WritePt2(const std::string& path) const {
  ZipFile zip(path);
  int number = 0;
  for (const Value& v : values_) {
    if (v.kind != Value::kParameter && v.kind != Value::kBuffer) continue;
    const int n = number++;
    zip.Add(absl::StrCat(name_, "/data/weights/weight_", n),
            [&](auto append) { FillWeight(Bytes(v.sizes), static_cast<uint64_t>(n) + 1, append); });
  }
  zip.Add(name_ + "/data/weights/model_weights_config.json", WeightsJson());
  zip.Add(name_ + "/data/constants/model_constants_config.json", "{\"config\": {}}");
  zip.Add(name_ + "/models/model.json", ProgramJson());
  zip.Add(name_ + "/archive_format", "pt2");
  zip.Add(name_ + "/archive_version", "0");
  zip.Add(name_ + "/byteorder", "little");
  return zip.Finish();
}

}  // namespace smelt::bench
