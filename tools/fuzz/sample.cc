#include "smelt/tools/fuzz/sample.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/core/tensor/float16.h"
#include "smelt/core/tensor/float8.h"
#include "smelt/pipeline/complete_types.h"

namespace smelt {
namespace {

// One number of a storage: a complex element is two.
template <typename T>
T Get(const char* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
template <typename T>
void Put(T x, std::string& bytes) {
  bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
}

std::string NumbersToText(const CallStorage& s) {
  std::string out(Name(s.dtype));
  const int step = IsComplex(s.dtype) ? ItemSize(s.dtype) / 2 : ItemSize(s.dtype);
  for (size_t i = 0; i + step <= s.bytes.size(); i += step) {
    const char* p = s.bytes.data() + i;
    switch (s.dtype) {
      case DType::kBool:
      case DType::kUInt8:
        absl::StrAppend(&out, " ", Get<uint8_t>(p));
        break;
      case DType::kInt8:
        absl::StrAppend(&out, " ", Get<int8_t>(p));
        break;
      case DType::kInt16:
        absl::StrAppend(&out, " ", Get<int16_t>(p));
        break;
      case DType::kInt32:
        absl::StrAppend(&out, " ", Get<int32_t>(p));
        break;
      case DType::kInt64:
        absl::StrAppend(&out, " ", Get<int64_t>(p));
        break;
      case DType::kFloat16:
        absl::StrAppendFormat(&out, " %.6g", HalfToFloat(Get<uint16_t>(p)));
        break;
      case DType::kBFloat16:
        absl::StrAppendFormat(&out, " %.6g", BFloat16ToFloat(Get<uint16_t>(p)));
        break;
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
        absl::StrAppendFormat(&out, " %.6g", Float8ToFloat(s.dtype, Get<uint8_t>(p)));
        break;
      case DType::kFloat32:
      case DType::kComplex64:
        absl::StrAppendFormat(&out, " %.9g", Get<float>(p));
        break;
      case DType::kFloat64:
      case DType::kComplex128:
        absl::StrAppendFormat(&out, " %.17g", Get<double>(p));
        break;
    }
  }
  return out;
}

absl::StatusOr<CallStorage> ParseNumbers(absl::Span<const absl::string_view> words) {
  CallStorage s;
  const std::optional<DType> dtype = words.empty() ? std::nullopt : ParseDType(words[0]);
  if (!dtype) return absl::InvalidArgumentError("a storage's dtype expected");
  s.dtype = *dtype;
  for (absl::string_view w : words.subspan(1)) {
    double d = 0;
    int64_t i = 0;
    const bool real = IsFloating(s.dtype) || IsComplex(s.dtype);
    if (real ? !absl::SimpleAtod(w, &d) : !absl::SimpleAtoi(w, &i))
      return absl::InvalidArgumentError(absl::StrCat("a number expected: ", w));
    switch (s.dtype) {
      case DType::kBool:
      case DType::kUInt8:
      case DType::kInt8:
        Put(static_cast<uint8_t>(i), s.bytes);
        break;
      case DType::kInt16:
        Put(static_cast<int16_t>(i), s.bytes);
        break;
      case DType::kInt32:
        Put(static_cast<int32_t>(i), s.bytes);
        break;
      case DType::kInt64:
        Put(i, s.bytes);
        break;
      case DType::kFloat16:
        Put(FloatToHalf(static_cast<float>(d)), s.bytes);
        break;
      case DType::kBFloat16:
        Put(FloatToBFloat16(static_cast<float>(d)), s.bytes);
        break;
      case DType::kFloat8E4M3FN:
      case DType::kFloat8E5M2:
        Put(FloatToFloat8(s.dtype, static_cast<float>(d)), s.bytes);
        break;
      case DType::kFloat32:
      case DType::kComplex64:
        Put(static_cast<float>(d), s.bytes);
        break;
      case DType::kFloat64:
      case DType::kComplex128:
        Put(d, s.bytes);
        break;
    }
  }
  return s;
}

std::string List(const std::vector<int64_t>& v) { return absl::StrCat("[", absl::StrJoin(v, ","), "]"); }

absl::StatusOr<std::vector<int64_t>> ParseList(absl::string_view text) {
  std::vector<int64_t> out;
  if (!absl::ConsumePrefix(&text, "[") || !absl::ConsumeSuffix(&text, "]"))
    return absl::InvalidArgumentError("a list expected");
  for (absl::string_view w : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    int64_t i = 0;
    if (!absl::SimpleAtoi(w, &i)) return absl::InvalidArgumentError("a list of ints expected");
    out.push_back(i);
  }
  return out;
}

absl::StatusOr<CallArg> ParseArg(absl::Span<const absl::string_view> words, const Call& call) {
  CallArg a;
  int64_t i = 0;
  double d = 0;
  if (words.size() == 1 && words[0] == "none") return a;
  if (words.size() == 2 && words[0] == "int" && absl::SimpleAtoi(words[1], &i)) {
    a.number = Datum(i);
    return a;
  }
  if (words.size() == 2 && words[0] == "float" && absl::SimpleAtod(words[1], &d)) {
    a.number = Datum(d);
    return a;
  }
  if (words.size() == 2 && words[0] == "bool") {
    a.number = Datum(words[1] == "true");
    return a;
  }
  if (words.size() == 2 && words[0] == "same" && absl::SimpleAtoi(words[1], &i) && i >= 0 &&
      i < static_cast<int64_t>(call.args.size())) {
    a = call.args[i];
    a.same_as = static_cast<int>(i);
    return a;
  }
  if (words.size() == 5 && absl::SimpleAtoi(words[0], &i) && i >= 0 && i < static_cast<int64_t>(call.storages.size())) {
    a.storage = static_cast<int>(i);
    const std::optional<DType> dtype = ParseDType(words[1]);
    if (!dtype) return absl::InvalidArgumentError("an argument's dtype expected");
    a.dtype = *dtype;
    SMELT_ASSIGN_OR_RETURN(a.geometry.sizes, ParseList(words[2]));
    SMELT_ASSIGN_OR_RETURN(a.geometry.strides, ParseList(words[3]));
    if (!absl::SimpleAtoi(words[4], &a.geometry.offset) || a.geometry.sizes.size() != a.geometry.strides.size())
      return absl::InvalidArgumentError("an argument's geometry expected");
    return a;
  }
  return absl::InvalidArgumentError("an argument expected");
}

}  // namespace

Sample Sample::Clone() const { return {graph->Clone(), call}; }

std::string Sample::ToString() const {
  std::string out = PrintGraph(*graph);
  absl::StrAppend(&out, "call\n");
  for (const std::shared_ptr<Storage>& s : graph->weight_storages) {
    // Printed as the first weight in it has them.
    CallStorage contents{DType::kUInt8, std::string(s->data(), s->bytes())};
    for (size_t w = graph->weights.size(); w-- > 0;) {
      if (graph->weight_storages[graph->weights[w].storage] == s) contents.dtype = graph->weights[w].dtype;
    }
    absl::StrAppend(&out, "  weight ", NumbersToText(contents), "\n");
  }
  for (const CallStorage& s : call.storages) absl::StrAppend(&out, "  storage ", NumbersToText(s), "\n");
  for (const CallArg& a : call.args) {
    if (a.same_as >= 0) {
      absl::StrAppend(&out, "  arg same ", a.same_as, "\n");
    } else if (a.storage >= 0) {
      absl::StrAppend(&out, "  arg ", a.storage, " ", Name(a.dtype), " ", List(a.geometry.sizes), " ",
                      List(a.geometry.strides), " ", a.geometry.offset, "\n");
    } else if (a.number.IsInt()) {
      absl::StrAppend(&out, "  arg int ", a.number.as_int(), "\n");
    } else if (a.number.IsFloat()) {
      absl::StrAppendFormat(&out, "  arg float %.17g\n", a.number.as_float());
    } else if (a.number.IsBool()) {
      absl::StrAppend(&out, "  arg bool ", a.number.as_bool() ? "true" : "false", "\n");
    } else {
      absl::StrAppend(&out, "  arg none\n");
    }
  }
  return out;
}

absl::StatusOr<Sample> Sample::Parse(absl::string_view text, const std::string& file_name) {
  const size_t at = text.find("\ncall\n");
  if (at == absl::string_view::npos) return absl::InvalidArgumentError(absl::StrCat(file_name, ": no line \"call\""));
  Sample sample;
  ParseOptions options;
  options.file_name = file_name;
  // smelt prints every operator with its overload, which may be the nameless one.
  options.resolve_overload = [](absl::string_view name, absl::Span<const Type> types) -> absl::StatusOr<OpName> {
    const OpName op = OpName::Get(name);
    if (FindSchema(op) != nullptr) return op;
    return ResolveOverload(name, types);
  };
  SMELT_ASSIGN_OR_RETURN(sample.graph, ParseGraph(text.substr(0, at + 1), options));
  size_t weight = 0;
  for (absl::string_view line : absl::StrSplit(text.substr(at + 6), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    const absl::Span<const absl::string_view> rest = absl::MakeSpan(words).subspan(1);
    absl::Status s;
    if (words[0] == "storage" || words[0] == "weight") {
      absl::StatusOr<CallStorage> storage = ParseNumbers(rest);
      s = storage.status();
      if (s.ok() && words[0] == "storage") sample.call.storages.push_back(*std::move(storage));
      if (s.ok() && words[0] == "weight") {
        if (weight == sample.graph->weight_storages.size() ||
            sample.graph->weight_storages[weight]->bytes() != static_cast<int64_t>(storage->bytes.size())) {
          s = absl::InvalidArgumentError("the graph has no such weight");
        } else {
          std::shared_ptr<Storage> contents = Storage::Allocate(static_cast<int64_t>(storage->bytes.size()));
          if (contents->bytes() > 0) std::memcpy(contents->data(), storage->bytes.data(), storage->bytes.size());
          sample.graph->weight_storages[weight++] = std::move(contents);
        }
      }
    } else if (words[0] == "arg") {
      absl::StatusOr<CallArg> arg = ParseArg(rest, sample.call);
      s = arg.status();
      if (s.ok()) sample.call.args.push_back(*std::move(arg));
    } else {
      s = absl::InvalidArgumentError("weight, storage or arg expected");
    }
    if (!s.ok()) return Annotate(s, absl::StrCat(file_name, ": \"", line, "\""));
  }
  if (weight != sample.graph->weight_storages.size())
    return absl::InvalidArgumentError(absl::StrCat(file_name, ": a weight has no contents"));
  const std::vector<std::string> names = sample.graph->output_names;
  SMELT_RETURN_IF_ERROR(Annotate(CompleteTypes(*sample.graph, /*simplify=*/false), file_name));
  sample.graph->output_names = names;  // as they were printed
  return sample;
}

MadeCall Make(const Call& call) {
  MadeCall made;
  for (const CallStorage& s : call.storages) {
    std::shared_ptr<Storage> storage = Storage::Allocate(static_cast<int64_t>(s.bytes.size()));
    if (!s.bytes.empty()) std::memcpy(storage->data(), s.bytes.data(), s.bytes.size());
    made.storages.push_back(std::move(storage));
  }
  for (const CallArg& a : call.args) {
    if (a.same_as >= 0) {
      made.args.push_back(made.args[a.same_as]);
    } else if (a.storage >= 0) {
      made.args.push_back(Datum(Tensor(made.storages[a.storage], a.dtype, a.geometry)));
    } else {
      made.args.push_back(a.number);
    }
  }
  return made;
}

}  // namespace smelt
