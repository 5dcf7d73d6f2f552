// Compares the evaluator with PyTorch's results in testdata/op_answers.safetensors, whose README describes the entries.
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/eval/evaluator.h"
#include "smelt/core/eval/kernels.h"
#include "smelt/core/eval/python_json.h"

namespace smelt {
namespace {

using Json = nlohmann::json;
using eval_internal::Cx;

// Raised when more is supported, never lowered.
constexpr int kSupported = 6650;

// Where PyTorch's own vectorized code deviates from the operator's definition or from IEEE arithmetic: the number of
// entries, and the reason.
struct Known {
  int entries;
  const char* reason;
};
const std::map<std::string, Known>& KnownDifferences() {
  static const auto* const kKnown = new std::map<std::string, Known>{
      {"aten::sqrt", {4, "float32 is not correctly rounded by one unit on short tensors"}},
      {"aten::sqrt_", {2, "the same"}},
      {"aten::sqrt.out", {2, "the same"}},
      {"aten::sinh", {1, "float32 overflows at 89 already"}},
      {"aten::sinh_", {1, "the same"}},
      {"aten::cosh", {1, "the same"}},
      {"aten::cosh_", {1, "the same"}},
      {"aten::gelu", {4, "infinity gives NaN"}},
      {"aten::gelu_", {2, "the same"}},
      {"aten::gelu.out", {1, "a strided out is not written at all"}},
      {"aten::special_ndtr", {2, "half types round inside"}},
      {"aten::remainder.Tensor", {3, "the largest number modulo 0.001 gives NaN: the quotient overflows"}},
      {"aten::fmod.Tensor", {3, "the same"}},
      {"aten::floor_divide", {1, "float16 rounds inside"}},
      {"aten::div.Tensor_mode", {2, "the same"}},
      {"aten::sum", {1, "1e38 and -1e38 among the terms: the order of summation is all there is"}},
      {"aten::nansum", {1, "the same"}},
      {"aten::mean", {1, "the same"}},
  };
  return *kKnown;
}

struct Answers {
  std::string data;
  Json entries, tolerance;
};

int64_t OffsetOf(const Json& w) { return w.value("offset", int64_t{0}); }
std::vector<int64_t> StridesOf(const Json& w) {
  if (w.contains("strides")) return w["strides"].get<std::vector<int64_t>>();
  const Geometry g = Geometry::Contiguous(w["sizes"].get<std::vector<int64_t>>());
  return {g.strides.begin(), g.strides.end()};
}

Answers Load() {
  absl::StatusOr<std::string> file = ReadFile("testdata/op_answers.safetensors");
  SMELT_CHECK_OK(file.status());
  uint64_t header = 0;
  std::memcpy(&header, file->data(), sizeof(header));
  const Json json = Json::parse(file->substr(8, header));
  auto part = [&](const char* name) {
    const Json& offsets = json[name]["data_offsets"];
    const size_t begin = offsets[0], end = offsets[1];
    return file->substr(8 + header + begin, end - begin);
  };
  Answers a;
  a.data = part("data");
  const Json doc = ParsePythonJson(part("entries"));
  a.entries = doc["entries"];
  a.tolerance = doc["tolerance"];
  return a;
}

class Entry {
 public:
  Entry(const Answers& answers, const Json& e) : answers_(answers), e_(e) {}

  // Returns the full name.
  std::string op() const {
    const std::string s = e_["op"];
    return absl::StrContains(s, "::") ? s : absl::StrCat("aten::", s);
  }

  // Returns "" if the evaluator agrees; else "unsupported: ..." or the difference.
  std::string Check() {
    for (const Json& w : e_["args"]) args_.push_back(Value(w));
    std::vector<Geometry> before;
    absl::StatusOr<std::vector<EvalValue>> r = EvaluateOp(OpName::Get(op()), args_);
    if (!r.ok()) {
      return absl::StrCat(r.status().code() == absl::StatusCode::kUnimplemented ? "unsupported: " : "refused: ",
                          r.status().message());
    }
    if (r->size() != e_["outputs"].size())
      return absl::StrCat("returns ", r->size(), " values, expected ", e_["outputs"].size());
    for (size_t i = 0; i < r->size(); ++i) {
      const std::string d = Compare((*r)[i], e_["outputs"][i]);
      if (!d.empty()) return absl::StrCat("output ", i, ": ", d);
    }
    // The arguments whose geometry changed; all others did not change.
    std::map<int, Json> changed;
    if (e_.contains("after_args")) {
      for (const Json& w : e_["after_args"]) changed[w["arg"]] = w;
    }
    for (size_t i = 0; i < args_.size(); ++i) {
      if (!args_[i].IsTensor()) continue;
      const Json& want = changed.count(i) != 0 ? changed[i] : e_["args"][i];
      const std::string d = CompareGeometry(args_[i].tensor(), want, true);
      if (!d.empty()) return absl::StrCat("argument ", i, " afterwards: ", d);
    }
    // The contents of the arguments' storages.
    for (const auto& [index, storage] : storages_) {
      const std::string key = std::to_string(index);
      Json range = e_["storages"][index];
      const bool written = e_.contains("after") && e_["after"].contains(key);
      if (written) range = e_["after"][key];
      const std::string bytes = answers_.data.substr(range[0], range[1]);
      if (storage->bytes() != static_cast<int64_t>(bytes.size()))
        return absl::StrCat("storage ", index, " has ", storage->bytes(), " bytes afterwards, expected ", bytes.size());
      const std::string d = CompareStorage(index, storage, bytes, written);
      if (!d.empty()) return absl::StrCat("storage ", index, " afterwards: ", d);
    }
    return "";
  }

 private:
  std::shared_ptr<Storage> StorageOf(int index) {
    std::shared_ptr<Storage>& s = storages_[index];
    if (s == nullptr) {
      const Json& range = e_["storages"][index];
      const std::string bytes = answers_.data.substr(range[0], range[1]);
      s = Storage::Allocate(bytes.size());
      std::memcpy(s->data(), bytes.data(), bytes.size());
    }
    return s;
  }
  EvalValue Value(const Json& w) {
    if (w.contains("storage")) {
      const std::string key = w.dump();
      auto it = tensors_.find(key);
      if (it != tensors_.end()) return EvalValue(it->second);
      Tensor t(StorageOf(w["storage"]), *ParseDType(w["dtype"].get<std::string>()),
               {w["sizes"].get<std::vector<int64_t>>(), StridesOf(w), OffsetOf(w)});
      tensors_[key] = t;
      return EvalValue(t);
    }
    if (w.contains("int")) return EvalValue(w["int"].get<int64_t>());
    if (w.contains("float")) return EvalValue(Number(w["float"]));
    if (w.contains("bool")) return EvalValue(w["bool"].get<bool>());
    if (w.contains("complex")) return EvalValue(Cx(Number(w["complex"][0]), Number(w["complex"][1])));
    if (w.contains("string")) return EvalValue(w["string"].get<std::string>());
    if (w.contains("scalar_type"))
      return EvalValue(ScalarTypeOf(ParseDType(w["scalar_type"].get<std::string>()).value_or(DType::kFloat32)));
    if (w.contains("memory_format")) {
      const std::string f = w["memory_format"].is_string() ? w["memory_format"].get<std::string>() : "";
      const std::map<std::string, int64_t> codes = {
          {"contiguous_format", 0}, {"preserve_format", 1}, {"channels_last", 2}, {"channels_last_3d", 3}};
      auto it = codes.find(f.substr(f.find('.') == std::string::npos ? 0 : f.find('.') + 1));
      return EvalValue(it == codes.end() ? int64_t{0} : it->second);
    }
    if (w.contains("layout")) return EvalValue(int64_t{0});
    if (w.contains("device")) return EvalValue(std::string("cpu"));
    std::vector<EvalValue> list;
    for (const char* kind : {"ints", "floats", "bools"}) {
      if (!w.contains(kind)) continue;
      for (const Json& x : w[kind]) {
        list.push_back(kind[0] == 'i'   ? EvalValue(x.get<int64_t>())
                       : kind[0] == 'f' ? EvalValue(Number(x))
                                        : EvalValue(x.get<bool>()));
      }
      return EvalValue::List(std::move(list));
    }
    if (w.contains("list")) {
      for (const Json& x : w["list"]) list.push_back(Value(x));
      return EvalValue::List(std::move(list));
    }
    return EvalValue();
  }
  static double Number(const Json& x) { return JsonNumber(x); }

  static std::string Numbers(absl::Span<const int64_t> v) { return absl::StrCat("[", absl::StrJoin(v, ", "), "]"); }

  // Strides of dims of size 1 are compared too: the file has PyTorch's strides.
  std::string CompareGeometry(const Tensor& t, const Json& w, bool offset) {
    const std::vector<int64_t> sizes = w["sizes"], strides = StridesOf(w);
    if (Name(t.dtype()) != absl::string_view(w["dtype"].get<std::string>()))
      return absl::StrCat("dtype ", Name(t.dtype()), ", expected ", w["dtype"].get<std::string>());
    if (absl::MakeSpan(sizes) != t.sizes())
      return absl::StrCat("sizes ", Numbers(t.sizes()), ", expected ", Numbers(sizes));
    if (absl::MakeSpan(strides) != t.strides() && t.NumElements() > 0)
      return absl::StrCat("strides ", Numbers(t.strides()), ", expected ", Numbers(strides));
    if (offset && t.offset() != OffsetOf(w)) return absl::StrCat("offset ", t.offset(), ", expected ", OffsetOf(w));
    return "";
  }

  std::string CompareNumber(const char* got, const char* want, DType t) const {
    const std::string mode = e_.value("compare", "close");
    const int item = ItemSize(t);
    if (IsComplex(t)) {
      const DType part = RealOf(t);
      const std::string re = CompareNumber(got, want, part);
      return re.empty() ? CompareNumber(got + item / 2, want + item / 2, part) : re;
    }
    if (!IsFloating(t)) {
      if (std::memcmp(got, want, item) == 0) return "";
      return absl::StrCat(eval_internal::LoadAs<int64_t>(got, t), ", expected ",
                          eval_internal::LoadAs<int64_t>(want, t));
    }
    const double a = eval_internal::LoadAs<double>(got, t), b = eval_internal::LoadAs<double>(want, t);
    if (std::isnan(a) && std::isnan(b)) return "";
    bool ok = mode == "bits" ? std::memcmp(got, want, item) == 0 : a == b;
    if (mode == "close" && !ok && std::isfinite(a) && std::isfinite(b)) {
      const Json& tolerance = answers_.tolerance[std::string(Name(t))];
      ok = std::abs(a - b) <= tolerance[1].get<double>() + tolerance[0].get<double>() * std::abs(b);
    }
    return ok ? "" : absl::StrCat(a, ", expected ", b);
  }

  std::string Compare(const EvalValue& got, const Json& w) {
    if (w.contains("storage")) {
      if (!got.IsTensor()) return absl::StrCat(got.ToString(), ", expected a tensor");
      const Tensor& t = got.tensor();
      if (w.contains("same_as_arg")) {
        const int arg = w["same_as_arg"];
        return args_[arg].IsTensor() && args_[arg].tensor().IsSame(t) ? ""
                                                                      : absl::StrCat("not argument ", arg, " itself");
      }
      const int index = w["storage"];
      const bool of_argument = storages_.count(index) != 0 && fresh_.count(index) == 0;
      std::string d = CompareGeometry(t, w, of_argument);
      if (!d.empty()) return d;
      if (of_argument) return t.storage() == storages_[index] ? "" : "not in the argument's memory";
      if (!t.InBounds()) return "out of bounds";
      for (const auto& [i, s] : storages_) {
        if (fresh_.count(i) == 0 && s == t.storage() && s->bytes() > 0) return "in an argument's memory";
      }
      // Outputs that name one storage share it.
      auto [it, inserted] = fresh_.try_emplace(index, t.storage());
      if (!inserted && it->second != t.storage()) return "does not share memory with an earlier output";
      return CompareElements(t, w, index);
    }
    if (w.contains("list")) {
      if (!got.IsList() || got.elements().size() != w["list"].size()) return "not such a list";
      for (size_t i = 0; i < w["list"].size(); ++i) {
        const std::string d = Compare(got.elements()[i], w["list"][i]);
        if (!d.empty()) return absl::StrCat("element ", i, ": ", d);
      }
      return "";
    }
    if (w.contains("ints")) {
      const std::vector<int64_t> want = w["ints"];
      if (!got.IsList() || got.elements().size() != want.size()) return "not such a list";
      for (size_t i = 0; i < want.size(); ++i) {
        if (!got.elements()[i].IsInt() || got.elements()[i].as_int() != want[i]) return "other ints";
      }
      return "";
    }
    if (w.contains("none")) return got.IsNone() ? "" : "expected None";
    if (w.contains("int")) {
      return got.IsInt() && got.as_int() == w["int"].get<int64_t>()
                 ? ""
                 : absl::StrCat(got.ToString(), ", expected ", w.dump());
    }
    if (w.contains("bool")) {
      return got.IsBool() && got.as_bool() == w["bool"].get<bool>()
                 ? ""
                 : absl::StrCat(got.ToString(), ", expected ", w.dump());
    }
    if (w.contains("float")) {
      if (!got.IsDouble()) return absl::StrCat(got.ToString(), ", expected a float");
      const double a = got.as_double(), b = Number(w["float"]);
      const bool ok = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= 1e-12 + 1e-9 * std::abs(b);
      return ok ? "" : absl::StrCat(a, ", expected ", b);
    }
    if (w.contains("complex"))
      return got.IsComplex() && got.as_complex() == Cx(Number(w["complex"][0]), Number(w["complex"][1]))
                 ? ""
                 : "other number";
    return absl::StrCat("an output this test does not know: ", w.dump());
  }

  std::string CompareElements(const Tensor& t, const Json& w, int index) {
    const Json& range = e_["storages"][index];
    const char* want = answers_.data.data() + range[0].get<size_t>() + OffsetOf(w) * ItemSize(t.dtype());
    const char* got = static_cast<const char*>(t.data());
    const std::vector<int64_t> strides(t.strides().begin(), t.strides().end());
    const int item = ItemSize(t.dtype());
    std::string difference;
    int64_t at = 0, count = 0;
    eval_internal::Walk(t.sizes(), {strides}, [&](const std::vector<int64_t>& o) {
      const std::string d = CompareNumber(got + o[0] * item, want + o[0] * item, t.dtype());
      if (!d.empty() && count++ == 0) difference = absl::StrCat("element ", at, " is ", d);
      ++at;
    });
    return count > 1 ? absl::StrCat(difference, " (and ", count - 1, " others)") : difference;
  }

  // Bytes that no written element covers are compared exactly; elements as the entry says.
  std::string CompareStorage(int index, const std::shared_ptr<Storage>& storage, const std::string& want,
                             bool written) {
    if (storage->bytes() == 0 || std::memcmp(storage->data(), want.data(), want.size()) == 0) return "";
    if (!written) return "changed";
    // By the geometry of the arguments in the storage: elements are compared as numbers, the rest as bytes.
    std::vector<bool> element(want.size(), false);
    for (const auto& [key, t] : tensors_) {
      if (t.storage() != storage) continue;
      std::string difference;
      const std::vector<int64_t> strides(t.strides().begin(), t.strides().end());
      const int item = ItemSize(t.dtype());
      eval_internal::Walk(t.sizes(), {strides}, [&](const std::vector<int64_t>& o) {
        const int64_t at = (t.offset() + o[0]) * item;
        const std::string d = CompareNumber(storage->data() + at, want.data() + at, t.dtype());
        if (!d.empty() && difference.empty()) difference = absl::StrCat("the element at byte ", at, " is ", d);
        for (int k = 0; k < item; ++k) element[at + k] = true;
      });
      if (!difference.empty()) return difference;
    }
    for (size_t i = 0; i < want.size(); ++i) {
      if (!element[i] && storage->data()[i] != want[i])
        return absl::StrCat("byte ", i, ", which nobody writes, changed");
    }
    return "";
  }

  const Answers& answers_;
  const Json& e_;
  std::vector<EvalValue> args_;
  std::map<int, std::shared_ptr<Storage>> storages_;  // of arguments
  std::map<int, std::shared_ptr<Storage>> fresh_;
  std::map<std::string, Tensor> tensors_;
};

TEST(OpAnswersTest, TheEvaluatorGivesPyTorchsAnswers) {
  const Answers answers = Load();
  const char* only = std::getenv("ONLY");
  int agree = 0, unsupported = 0, differ = 0;
  std::map<std::string, std::pair<int, std::string>> missing;
  std::map<std::string, int> excused;
  for (size_t i = 0; i < answers.entries.size(); ++i) {
    Entry entry(answers, answers.entries[i]);
    if (only != nullptr && entry.op() != only) continue;
    const std::string result = entry.Check();
    if (result.empty()) {
      ++agree;
    } else if (result.rfind("unsupported", 0) == 0) {
      ++unsupported;
      ++missing[entry.op()].first;
      missing[entry.op()].second = result;
    } else {
      auto known = KnownDifferences().find(entry.op());
      if (known != KnownDifferences().end() && excused[entry.op()]++ < known->second.entries) continue;
      ++differ;
      ADD_FAILURE() << "entry " << i << " " << entry.op() << ": " << result;
    }
  }
  for (const auto& [op, m] : missing) std::cout << "unsupported " << m.first << "x " << op << ": " << m.second << "\n";
  std::cout << agree << " agree, " << unsupported << " unsupported, " << differ << " differ\n";
  if (only == nullptr) {
    EXPECT_GE(agree, kSupported);
  }
}

}  // namespace
}  // namespace smelt
