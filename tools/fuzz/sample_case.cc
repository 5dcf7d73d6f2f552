#include "smelt/tools/fuzz/sample_case.h"

#include <cstring>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/ir/text.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/schema/graph_encode.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<CallArg> ReadArg(const Json& a, const SafetensorsFile& file, std::map<std::string, int>& numbers,
                                Call& call) {
  CallArg arg;
  if (a.contains("int")) {
    arg.number = Datum(a["int"].get<int64_t>());
  } else if (a.contains("float") && a["float"].is_number()) {
    arg.number = Datum(a["float"].get<double>());
  } else if (a.contains("bool")) {
    arg.number = Datum(a["bool"].get<bool>());
  } else if (a.contains("storage")) {
    const std::string name = a["storage"].get<std::string>();
    const std::optional<DType> dtype = ParseDType(a["dtype"].get<std::string>());
    auto bytes = file.entries().find(name);
    if (!dtype) return absl::InvalidArgumentError("an argument's dtype is not known");
    if (bytes == file.entries().end())
      return absl::UnimplementedError(absl::StrCat("an argument in memory of an earlier call, \"", name, "\""));
    arg.dtype = *dtype;
    arg.geometry.sizes = a["sizes"].get<std::vector<int64_t>>();
    arg.geometry.strides = a["strides"].get<std::vector<int64_t>>();
    arg.geometry.offset = a["offset"].get<int64_t>();
    auto [it, fresh] = numbers.try_emplace(name, static_cast<int>(call.storages.size()));
    if (fresh) call.storages.push_back({*dtype, std::string(bytes->second.bytes)});
    arg.storage = it->second;
    const bool distinct = a.contains("distinct") && a["distinct"].get<bool>();
    for (size_t k = 0; k < call.args.size() && !distinct && arg.same_as < 0; ++k) {
      const CallArg& o = call.args[k];
      if (o.storage == arg.storage && o.dtype == arg.dtype && o.geometry == arg.geometry)
        arg.same_as = o.same_as >= 0 ? o.same_as : static_cast<int>(k);
    }
  } else if (!a.contains("none")) {
    return absl::UnimplementedError(absl::StrCat("an argument of this kind: ", JsonText(a)));
  }
  return arg;
}

// Writes the bytes of a fresh storage that tensors cover; other bytes are zero.
class Writer {
 public:
  Writer(const Sample& sample, const Seen& seen) : sample_(sample), seen_(seen) {
    for (size_t s = 0; s < seen.call.storages.size(); ++s) {
      const Storage& after = *seen.call.storages[s];
      Add(absl::StrCat("c0.s", s), sample.call.storages[s].bytes);
      Add(absl::StrCat("c0.s", s, ".after"), std::string(after.data(), after.bytes()));
      names_[&after] = absl::StrCat("c0.s", s, ".after");
    }
    for (const Tensor& t : seen.states) {
      const std::string name = absl::StrCat("c0.b", names_.size(), ".after");
      if (names_.try_emplace(t.storage().get(), name).second)
        Add(name, std::string(t.storage()->data(), t.storage()->bytes()));
    }
  }

  Json Args() const {
    Json out = Json::array();
    for (size_t i = 0; i < sample_.call.args.size(); ++i) {
      const CallArg& a = sample_.call.args[i];
      if (a.storage < 0) {
        out.push_back(Number(a.number));
        continue;
      }
      Json j = Tensorlike(absl::StrCat("c0.s", a.storage), a.dtype, a.geometry);
      for (size_t k = 0; k < i; ++k) {
        const CallArg& o = sample_.call.args[k];
        if (a.same_as < 0 && o.storage == a.storage && o.dtype == a.dtype && o.geometry == a.geometry)
          j["distinct"] = true;
      }
      out.push_back(std::move(j));
    }
    return out;
  }
  Json AfterArgs() {
    Json out = Json::array();
    for (const Datum& d : seen_.call.args) {
      if (d.IsTensor()) out.push_back(Place(d.tensor()));
    }
    return out;
  }
  Json Outputs() {
    Json out = Json::array();
    for (const Datum& d : seen_.outputs) {
      if (!d.IsTensor()) {
        out.push_back(Number(d));
        continue;
      }
      Json j = Place(d.tensor());
      for (size_t i = seen_.call.args.size(); i-- > 0;) {
        if (seen_.call.args[i].IsTensor() && seen_.call.args[i].tensor().IsSame(d.tensor())) j["same_as_arg"] = i;
      }
      out.push_back(std::move(j));
    }
    return out;
  }
  Json AfterState() {
    Json out = Json::array();
    for (size_t k = 0; k < seen_.states.size(); ++k) {
      Json j = {{"name", sample_.graph->weights[k].name}};
      j.update(Place(seen_.states[k]));
      out.push_back(std::move(j));
    }
    return out;
  }

  absl::Status Write(const Json& document, const std::string& path) const {
    Json header;
    header["__metadata__"] = {{"smelt.case", JsonText(document)}};
    std::string data;
    for (const auto& [name, bytes] : entries_) {
      header[name] = {
          {"dtype", "U8"}, {"shape", {bytes.size()}}, {"data_offsets", {data.size(), data.size() + bytes.size()}}};
      data += bytes;
    }
    std::string text = JsonText(header);
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    std::string file(reinterpret_cast<const char*>(&size), sizeof size);
    return WriteFileAtomically(path, absl::StrCat(file, text, data));
  }

 private:
  void Add(const std::string& name, std::string bytes) { entries_.push_back({name, std::move(bytes)}); }
  static Json Tensorlike(const std::string& storage, DType dtype, const Geometry& g) {
    return {{"storage", storage},
            {"dtype", std::string(Name(dtype))},
            {"sizes", g.sizes},
            {"strides", g.strides},
            {"offset", g.offset}};
  }
  static Json Number(const Datum& d) {
    if (d.IsInt()) return {{"int", d.as_int()}};
    if (d.IsFloat()) return {{"float", d.as_float()}};
    if (d.IsBool()) return {{"bool", d.as_bool()}};
    return {{"none", true}};
  }
  Json Place(const Tensor& t) {
    auto [it, fresh] = names_.try_emplace(t.storage().get(), absl::StrCat("c0.o", names_.size()));
    if (fresh) Add(it->second, std::string(t.storage()->data(), t.storage()->bytes()));
    return Tensorlike(it->second, t.dtype(), t.geometry());
  }

  const Sample& sample_;
  const Seen& seen_;
  std::map<const Storage*, std::string> names_;
  std::vector<std::pair<std::string, std::string>> entries_;
};

}  // namespace

namespace {

absl::StatusOr<std::vector<Call>> ReadCalls(const std::string& path) {
  SMELT_ASSIGN_OR_RETURN(std::unique_ptr<SafetensorsFile> file, SafetensorsFile::Read(path));
  auto it = file->metadata().find("smelt.case");
  if (it == file->metadata().end()) return absl::DataLossError(absl::StrCat(path, ": no metadata \"smelt.case\""));
  const Json document = Json::parse(it->second, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() || !document.is_object() || !document.contains("calls"))
    return absl::DataLossError(absl::StrCat(path, ": a list \"calls\" expected"));
  std::vector<Call> calls;
  for (const Json& c : document["calls"]) {
    Call call;
    std::map<std::string, int> numbers;
    for (const Json& a : c["args"]) {
      SMELT_ASSIGN_OR_RETURN(CallArg arg, Annotate(ReadArg(a, *file, numbers, call), path));
      call.args.push_back(std::move(arg));
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

}  // namespace

absl::StatusOr<std::vector<Call>> ReadCaseCalls(const std::string& path) {
  try {
    return ReadCalls(path);
  } catch (const Json::exception& e) {
    return absl::DataLossError(absl::StrCat(path, ": not as a case is written (docs/case_files.md): ", e.what()));
  }
}

absl::Status WriteCase(const Sample& sample, const Seen& seen, const std::string& model_name, const std::string& path) {
  Writer writer(sample, seen);
  Json call = {{"args", writer.Args()}};
  if (seen.status.ok()) {
    call["after_args"] = writer.AfterArgs();
    call["outputs"] = writer.Outputs();
    call["after_state"] = writer.AfterState();
  } else {
    call["raises"] = std::string(seen.status.message());
  }
  return writer.Write({{"version", 1}, {"model", model_name}, {"rtol", 1e-4}, {"atol", 1e-5}, {"calls", {call}}}, path);
}

absl::StatusOr<std::string> WriteSampleFiles(const Sample& sample, const std::string& prefix) {
  const bool in_text = sample.graph->weights.empty();
  const std::string model = absl::StrCat(prefix, in_text ? ".ir" : ".smg");
  SMELT_RETURN_IF_ERROR(in_text ? WriteFileAtomically(model, PrintGraph(*sample.graph))
                                : WriteGraphFile(*sample.graph, model));
  SMELT_RETURN_IF_ERROR(WriteCase(sample, RunEagerly(sample), model, prefix + ".case.safetensors"));
  return model;
}

}  // namespace smelt
