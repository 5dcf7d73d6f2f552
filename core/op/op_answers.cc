#include "smelt/core/op/op_answers.h"

#include <cmath>
#include <cstring>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/check.h"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"

namespace smelt {

using nlohmann::json;

struct OpAnswers::Rep {
  std::string file;
  const char* data = nullptr;
  json entries;
};

OpAnswers::OpAnswers() = default;
OpAnswers::~OpAnswers() = default;
OpAnswers::OpAnswers(OpAnswers&&) noexcept = default;

int OpAnswers::size() const { return static_cast<int>(rep_->entries.size()); }

absl::StatusOr<OpAnswers> OpAnswers::Load(absl::string_view path) {
  OpAnswers a;
  a.rep_ = std::make_unique<Rep>();
  SMELT_ASSIGN_OR_RETURN(a.rep_->file, ReadFile(path));
  const std::string& file = a.rep_->file;
  if (file.size() < 8) return absl::InvalidArgumentError("not a safetensors file");
  uint64_t n;
  std::memcpy(&n, file.data(), 8);
  if (n > file.size() - 8) return absl::InvalidArgumentError("the header is longer than the file");
  json header = json::parse(file.substr(8, n));
  const char* base = file.data() + 8 + n;
  auto range = [&](const char* name) { return header[name]["data_offsets"]; };
  a.rep_->data = base + range("data")[0].get<int64_t>();
  const int64_t from = range("entries")[0], to = range("entries")[1];
  // Python writes NaN and Infinity, which JSON does not have: they are read as strings.
  std::string text(base + from, base + to);
  for (const char* word : {"-Infinity", "Infinity", "NaN"}) {
    const std::string w = word;
    for (size_t at = text.find(w); at != std::string::npos; at = text.find(w, at + w.size() + 2)) {
      const char before = text[at - 1];
      if (before == ':' || before == ',' || before == '[') text.replace(at, w.size(), absl::StrCat("\"", w, "\""));
    }
  }
  a.rep_->entries = json::parse(text)["entries"];
  return a;
}

absl::StatusOr<OpAnswers> OpAnswers::LoadOverlaps(absl::string_view path) {
  OpAnswers a;
  a.rep_ = std::make_unique<Rep>();
  SMELT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  a.rep_->entries = json::array();
  // Bytes in hexadecimal become a place in the data.
  const auto place = [&](json& word) {
    const std::string bytes = absl::HexStringToBytes(word.get<std::string>());
    word = {a.rep_->file.size(), bytes.size()};
    a.rep_->file += bytes;
  };
  for (absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    json entry = json::parse(line);
    for (json& storage : entry["storages"]) place(storage);
    if (entry.contains("after")) {
      for (json& bytes : entry["after"]) place(bytes);
    } else {
      entry["refused"] = true;
    }
    entry["outputs"] = json::array();
    a.rep_->entries.push_back(std::move(entry));
  }
  a.rep_->data = a.rep_->file.data();
  return a;
}

namespace {

double Number(const json& j) {
  if (j.is_number()) return j.get<double>();
  const std::string s = j.get<std::string>();
  return s == "Infinity" ? HUGE_VAL : s == "-Infinity" ? -HUGE_VAL : std::nan("");
}

// Returns the full name of the operator.
std::string NameOf(const json& entry) {
  const std::string s = entry["op"].get<std::string>();
  return absl::StrContains(s, "::") ? s : absl::StrCat("aten::", s);
}

int64_t FormatCode(const std::string& s) {
  if (s == "preserve_format") return 1;
  if (s == "channels_last") return 2;
  if (s == "channels_last_3d") return 3;
  return 0;
}

}  // namespace

// Reads the fields of one recorded answer, in the order of the format.
Answer OpAnswers::Get(int index) const {
  const json& e = rep_->entries[index];
  Answer a;
  a.op = OpName::Get(NameOf(e));
  a.refused = e.contains("refused");
  a.how = e.value("how", "");
  std::vector<std::shared_ptr<Storage>> storages;
  for (const json& s : e["storages"]) {
    const int64_t bytes = s[1];
    storages.push_back(Storage::Allocate(bytes));
    if (bytes > 0) std::memcpy(storages.back()->data(), rep_->data + s[0].get<int64_t>(), bytes);
  }
  absl::flat_hash_map<std::string, Tensor> seen;  // equal words are one tensor
  auto tensor = [&](const json& w, bool share) {
    json key = w;
    key.erase("same_as_arg");
    key.erase("distinct");
    key.erase("arg");
    const std::string text = key.dump();
    if (share) {
      if (auto it = seen.find(text); it != seen.end()) return it->second;
    }
    const auto sizes = w["sizes"].get<std::vector<int64_t>>();
    Geometry g = Geometry::Contiguous(sizes, w.value("offset", int64_t{0}));
    if (w.contains("strides")) {
      const auto strides = w["strides"].get<std::vector<int64_t>>();
      g.strides.assign(strides.begin(), strides.end());
    }
    Tensor t(storages[w["storage"].get<int>()], *ParseDType(w["dtype"].get<std::string>()), g);
    if (share) seen[text] = t;
    return t;
  };
  std::function<AnswerValue(const json&, bool)> value = [&](const json& w, bool share) {
    AnswerValue v;
    using K = OpArg::Kind;
    if (w.contains("storage")) {
      v.kind = K::kTensor;
      v.tensor = tensor(w, share);
      if (w.contains("same_as_arg")) v.same_as_arg = w["same_as_arg"];
    } else if (w.contains("int")) {
      v.kind = K::kInt;
      v.i = w["int"];
    } else if (w.contains("float")) {
      v.kind = K::kFloat;
      v.f = Number(w["float"]);
    } else if (w.contains("bool")) {
      v.kind = K::kBool;
      v.i = w["bool"].get<bool>();
    } else if (w.contains("complex")) {
      v.kind = K::kComplex;
      v.c = {Number(w["complex"][0]), Number(w["complex"][1])};
    } else if (w.contains("string")) {
      v.kind = K::kString;
      v.string = w["string"];
    } else if (w.contains("ints")) {
      v.kind = K::kIntList;
      v.ints = w["ints"].get<std::vector<int64_t>>();
    } else if (w.contains("floats")) {
      v.kind = K::kFloatList;
      for (const json& x : w["floats"]) v.floats.push_back(Number(x));
    } else if (w.contains("bools")) {
      v.kind = K::kBoolList;
      v.bools = w["bools"].get<std::vector<bool>>();
    } else if (w.contains("list")) {
      v.kind = K::kTensorList;
      for (const json& x : w["list"]) v.list.push_back(value(x, share));
    } else if (w.contains("scalar_type")) {
      v.kind = K::kInt;
      v.i = ScalarTypeOf(*ParseDType(w["scalar_type"].get<std::string>()));
    } else if (w.contains("memory_format")) {
      v.kind = K::kInt;
      v.i = FormatCode(w["memory_format"]);
    } else if (w.contains("layout")) {
      v.kind = K::kInt;
    } else if (w.contains("device")) {
      v.kind = K::kOther;
    }
    return v;
  };
  for (const json& w : e["args"]) a.args.push_back(value(w, !w.contains("distinct")));
  for (const json& w : e["outputs"]) a.outputs.push_back(value(w, false));
  if (e.contains("after")) {
    for (auto& [k, place] : e["after"].items()) {
      a.after.emplace_back(storages[std::stoi(k)],
                           std::string(rep_->data + place[0].get<int64_t>(), place[1].get<int64_t>()));
    }
  }
  if (e.contains("after_args")) {
    for (const json& w : e["after_args"]) a.after_args.emplace_back(w["arg"].get<int>(), tensor(w, false));
  }
  const std::string c = e.value("compare", "close");
  a.compare = c == "bits" ? Answer::Compare::kBits : c == "equal" ? Answer::Compare::kEqual : Answer::Compare::kClose;
  return a;
}

std::string OpAnswers::Describe(int i) const {
  const json& e = rep_->entries[i];
  std::string s = NameOf(e) + " ";
  std::function<void(const json&)> word = [&](const json& w) {
    if (w.contains("storage")) {
      absl::StrAppend(&s, w["dtype"].get<std::string>(), w["sizes"].dump(),
                      w.contains("strides") ? "/" + w["strides"].dump() : "");
    } else if (w.contains("list")) {
      s += "[";
      for (const json& x : w["list"]) word(x), s += " ";
      s += "]";
    } else if (w.contains("none")) {
      s += "None";
    } else {
      s += w.begin().value().dump();
    }
  };
  bool first = true;
  for (const json& w : e["args"]) {
    if (!first) s += ", ";
    first = false;
    word(w);
  }
  return absl::StrCat(s, " (#", i, e.contains("how") ? ", " + e["how"].get<std::string>() : "", ")");
}

OpArg AnswerValue::ToOpArg() const {
  OpArg a;
  switch (kind) {
    case OpArg::Kind::kNone:
      break;
    case OpArg::Kind::kTensor: {
      TensorType t;
      t.dtype = tensor.dtype();
      t.sizes = std::vector<Expr>(tensor.sizes().begin(), tensor.sizes().end());
      t.strides = std::vector<Expr>(tensor.strides().begin(), tensor.strides().end());
      return OpArg::Of(t);
    }
    case OpArg::Kind::kInt:
      return OpArg::Int(i);
    case OpArg::Kind::kFloat:
      return OpArg::Float(f);
    case OpArg::Kind::kBool:
      return OpArg::Bool(i != 0);
    case OpArg::Kind::kComplex:
      return OpArg::Complex(c);
    case OpArg::Kind::kString:
      return OpArg::String(string);
    case OpArg::Kind::kIntList:
      return OpArg::Ints(std::vector<Expr>(ints.begin(), ints.end()));
    case OpArg::Kind::kFloatList:
      a.kind = kind;
      a.known = true;
      a.floats = floats;
      break;
    case OpArg::Kind::kBoolList:
      a.kind = kind;
      a.known = true;
      a.bools = bools;
      break;
    case OpArg::Kind::kTensorList: {
      std::vector<OpArg> elements;
      for (const AnswerValue& v : list) elements.push_back(v.ToOpArg());
      return OpArg::List(std::move(elements));
    }
    case OpArg::Kind::kOther:
      a.kind = kind;
      break;
  }
  return a;
}

namespace {

// The address of element `index`, row-major.
const char* Address(const Tensor& t, int64_t index) {
  int64_t at = t.offset();
  for (int d = t.rank() - 1; d >= 0; --d) {
    at += index % t.sizes()[d] * t.strides()[d];
    index /= t.sizes()[d];
  }
  return t.storage()->data() + at * ItemSize(t.dtype());
}

double Load(DType t, const char* p) {
  auto as = [p](auto zero) {
    std::memcpy(&zero, p, sizeof(zero));
    return zero;
  };
  switch (t) {
    case DType::kBool:
    case DType::kUInt8:
      return as(uint8_t{});
    case DType::kInt8:
      return as(int8_t{});
    case DType::kInt16:
      return as(int16_t{});
    case DType::kInt32:
      return as(int32_t{});
    case DType::kInt64:
      return static_cast<double>(as(int64_t{}));
    case DType::kFloat16:
      return HalfToFloat(as(uint16_t{}));
    case DType::kBFloat16:
      return BFloat16ToFloat(as(uint16_t{}));
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E5M2:
      return Float8ToFloat(t, as(uint8_t{}));
    case DType::kFloat32:
    case DType::kComplex64:
      return as(float{});
    case DType::kFloat64:
    case DType::kComplex128:
      return as(double{});
  }
  return 0;
}

}  // namespace

double ElementAsDouble(const Tensor& t, int64_t index) { return Load(t.dtype(), Address(t, index)); }

std::string CompareTensors(const Tensor& have, const Tensor& want, Answer::Compare compare, bool strides) {
  if (have.dtype() != want.dtype())
    return absl::StrCat("dtype ", Name(have.dtype()), ", expected ", Name(want.dtype()));
  if (have.geometry().sizes != want.geometry().sizes) {
    return absl::StrCat("geometry ", have.geometry().ToString(), ", expected ", want.geometry().ToString());
  }
  if (strides) {
    for (int d = 0; d < have.rank(); ++d) {
      if (have.sizes()[d] > 1 && have.strides()[d] != want.strides()[d] && have.NumElements() > 0) {
        return absl::StrCat("geometry ", have.geometry().ToString(), ", expected ", want.geometry().ToString());
      }
    }
  }
  const DType t = have.dtype();
  double rtol = 0, atol = 0;
  switch (RealOf(t)) {
    case DType::kFloat64:
      rtol = 1e-9, atol = 1e-12;
      break;
    case DType::kFloat32:
      rtol = 1.3e-6, atol = 1e-5;
      break;
    case DType::kFloat16:
      rtol = 1e-3, atol = 1e-5;
      break;
    case DType::kBFloat16:
      rtol = 1.6e-2, atol = 1e-5;
      break;
    default:
      break;
  }
  const int item = ItemSize(t), parts = IsComplex(t) ? 2 : 1;
  for (int64_t i = 0; i < have.NumElements(); ++i) {
    const char *a = Address(have, i), *b = Address(want, i);
    if (std::memcmp(a, b, item) == 0) continue;
    for (int k = 0; k < parts; ++k) {
      const double x = Load(t, a + k * item / parts), y = Load(t, b + k * item / parts);
      const bool both_nan = std::isnan(x) && std::isnan(y);
      const bool real = IsFloating(t) || IsComplex(t);
      bool ok = both_nan;
      if (compare != Answer::Compare::kBits) ok |= x == y;
      if (compare == Answer::Compare::kBits && IsComplex(t))
        ok |= std::memcmp(a + k * item / 2, b + k * item / 2, item / 2) == 0;
      if (compare == Answer::Compare::kClose && real) {
        ok |= x == y || (std::isfinite(x) && std::isfinite(y) && std::fabs(x - y) <= atol + rtol * std::fabs(y));
      }
      if (!ok) {
        char text[120];
        std::snprintf(text, sizeof(text), "element %lld is %.17g, expected %.17g", static_cast<long long>(i), x, y);
        return text;
      }
    }
  }
  return "";
}

}  // namespace smelt
