#include "smelt/runtime/case.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/out_of_memory.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/guarded_storage.h"
#include "smelt/runtime/json_text.h"
#include "smelt/runtime/safetensors.h"
#include "smelt/runtime/strided.h"

namespace smelt {
namespace {

using Json = nlohmann::json;

absl::Status Bad(const std::string& where, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(where, ": ", what));
}

std::optional<double> Number(const Json& j) {
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) {
    const std::string& s = j.get_ref<const std::string&>();
    if (s == "NaN") return std::nan("");
    if (s == "Infinity") return INFINITY;
    if (s == "-Infinity") return -INFINITY;
  }
  return std::nullopt;
}

// A tensor as the case states it.
struct Stated {
  std::string storage;
  DType dtype = DType::kFloat32;
  Geometry geometry;
};

absl::StatusOr<Stated> ReadStated(const Json& j, const std::string& where) {
  Stated s;
  if (!j.is_object() || !j.contains("storage") || !j["storage"].is_string() || !j.contains("dtype") ||
      !j["dtype"].is_string() || !j.contains("sizes") || !j["sizes"].is_array() || !j.contains("strides") ||
      !j["strides"].is_array() || !j.contains("offset") || !j["offset"].is_number_integer() ||
      j["sizes"].size() != j["strides"].size() || j["sizes"].size() > 64) {
    return Bad(where, "storage, dtype, sizes, strides and offset of a tensor expected");
  }
  s.storage = j["storage"].get<std::string>();
  std::optional<DType> dtype = ParseDType(j["dtype"].get<std::string>());
  if (!dtype) return Bad(where, absl::StrCat("unknown dtype ", j["dtype"].get<std::string>()));
  s.dtype = *dtype;
  s.geometry.offset = j["offset"].get<int64_t>();
  bool empty = false;
  int64_t last = s.geometry.offset, elements = 1;
  for (size_t d = 0; d < j["sizes"].size(); ++d) {
    if (!j["sizes"][d].is_number_integer() || !j["strides"][d].is_number_integer())
      return Bad(where, "sizes and strides are integers");
    const int64_t n = j["sizes"][d].get<int64_t>(), step = j["strides"][d].get<int64_t>();
    if (n < 0 || step < 0) return Bad(where, "a negative size or stride");
    s.geometry.sizes.push_back(n);
    s.geometry.strides.push_back(step);
    empty = empty || n == 0;
  }
  for (size_t d = 0; d < s.geometry.sizes.size() && !empty; ++d) {
    int64_t reach;
    if (__builtin_mul_overflow(s.geometry.sizes[d] - 1, s.geometry.strides[d], &reach) ||
        __builtin_add_overflow(last, reach, &last) ||
        __builtin_mul_overflow(elements, s.geometry.sizes[d], &elements)) {
      return Bad(where, "an absurd geometry");
    }
  }
  // An expanded tensor has more elements than bytes, and they are visited one by one.
  if (s.geometry.offset < 0 || last > (int64_t{1} << 56) || elements > (int64_t{1} << 31))
    return Bad(where, "an absurd geometry");
  return s;
}

// Calls f(byte offset) for each element in index order.
template <typename F>
void ForEachElement(const Geometry& g, int item, F f) {
  const int rank = g.rank();
  for (int64_t n : g.sizes) {
    if (n == 0) return;
  }
  std::vector<int64_t> index(rank, 0);
  int64_t at = g.offset;
  while (true) {
    f(at * item);
    int d = rank - 1;
    for (; d >= 0; --d) {
      at += g.strides[d];
      if (++index[d] < g.sizes[d]) break;
      at -= g.strides[d] * g.sizes[d];
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

bool Reaches(const Geometry& g, int item, int64_t bytes) {
  bool ok = true;
  const auto span = g.Span();
  if (g.NumElements() > 0) ok = span.first >= 0 && span.second <= bytes / item;
  return ok;
}

class CaseRunner {
 public:
  CaseRunner(std::shared_ptr<const Program> program, const std::string& path, const CaseOptions& options)
      : program_(std::move(program)), path_(path), options_(options) {}

  absl::StatusOr<CaseReport> Run() {
    SMELT_ASSIGN_OR_RETURN(file_, SafetensorsFile::Read(path_));
    auto it = file_->metadata().find("smelt.case");
    if (it == file_->metadata().end()) {
      return Bad(path_,
                 "not a recorded case: it has no metadata \"smelt.case\" (docs/case_files.md); arguments alone are for "
                 "--inputs, a state for --state-in");
    }
    SMELT_ASSIGN_OR_RETURN(doc_, ParseJsonText(it->second, absl::StrCat(path_, ": smelt.case")));
    if (!doc_.is_object() || !doc_.contains("calls") || !doc_["calls"].is_array())
      return Bad(path_, "a list \"calls\" expected");
    if (doc_.contains("version") && doc_["version"] != 1)
      return absl::UnimplementedError(absl::StrCat(path_, ": version ", doc_["version"].dump()));
    rtol_ = doc_.contains("rtol") ? Number(doc_["rtol"]).value_or(1.3e-6) : 1.3e-6;
    atol_ = doc_.contains("atol") ? Number(doc_["atol"]).value_or(1e-5) : 1e-5;
    SMELT_ASSIGN_OR_RETURN(instance_, Instance::Create(program_, InstanceOptions{.guard = options_.guard,
                                                                                 .time_steps = options_.time_steps}));
    for (int round = 0; round < options_.repeat; ++round) {
      is_checked_ = round == 0 || options_.check_all_rounds;
      if (round > 0) {
        if (is_checked_) ForgetStats();
        SMELT_RETURN_IF_ERROR(MoveAll(program_->on_device()));
        SMELT_RETURN_IF_ERROR(instance_->ResetStates());
      }
      SMELT_RETURN_IF_ERROR(MoveAll(Device::Cpu()));
      live_.clear();
      returned_.clear();  // their memory serves the next round
      origins_.clear();
      for (size_t c = 0; c < doc_["calls"].size(); ++c) {
        call_ = static_cast<int>(c);
        SMELT_RETURN_IF_ERROR(RunCall(doc_["calls"][c]));
      }
    }
    report_.ok = report_.failures.empty();
    for (const std::string& name : program_->method_names()) {
      SMELT_ASSIGN_OR_RETURN(const Instance* method, instance_->Method(name));
      report_.step_times[name] = method->step_times();
    }
    if (!latencies_.empty()) {
      std::sort(latencies_.begin(), latencies_.end());
      report_.min_ms = latencies_.front();
      report_.median_ms = latencies_[latencies_.size() / 2];
    }
    return std::move(report_);
  }

 private:
  void Fail(const std::string& where, const std::string& what) {
    if (is_checked_ && report_.failures.size() < 200) report_.failures.push_back({call_, where, what});
  }

  // --- state ---
  struct SavedState {
    std::shared_ptr<Storage> storage;
    std::string bytes;
    Geometry geometry;
    DType dtype;
  };
  std::vector<SavedState> Snapshot() const {
    std::vector<SavedState> out;
    for (size_t i = 0; i < program_->states().size(); ++i) {
      const Tensor t = instance_->state(static_cast<int>(i));
      out.push_back({t.storage(), std::string(t.storage()->data(), t.storage()->bytes()), t.geometry(), t.dtype()});
    }
    return out;
  }
  // Moves all storages of arguments, results and states.
  absl::Status MoveAll(Device device) {
    if (program_->on_device().is_cpu()) return absl::OkStatus();
    for (const auto& [name, storage] : live_) SMELT_RETURN_IF_ERROR(storage->MoveTo(device));
    for (const Tensor& t : returned_) SMELT_RETURN_IF_ERROR(t.storage()->MoveTo(device));
    for (size_t i = 0; i < program_->states().size(); ++i)
      SMELT_RETURN_IF_ERROR(instance_->state(static_cast<int>(i)).storage()->MoveTo(device));
    return absl::OkStatus();
  }

  // --- storages ---
  absl::StatusOr<absl::string_view> FileBytes(const std::string& name) const {
    auto it = file_->entries().find(name);
    if (it == file_->entries().end()) return Bad(path_, absl::StrCat("no storage \"", name, "\""));
    return it->second.bytes;
  }
  // Returns the byte of the actual memory at which a storage of the case begins.
  int64_t OriginOf(const std::string& name) const {
    const auto it = origins_.find(name);
    return it == origins_.end() ? 0 : it->second;
  }
  absl::StatusOr<std::shared_ptr<Storage>> LiveStorage(const std::string& name) {
    auto it = live_.find(name);
    if (it != live_.end()) return it->second;
    SMELT_ASSIGN_OR_RETURN(absl::string_view bytes, FileBytes(name));
    const int64_t size = static_cast<int64_t>(bytes.size());
    std::shared_ptr<Storage> s;
    if (options_.guard == GuardPages::kNone) {
      s = Storage::Allocate(size);
    } else {
      SMELT_ASSIGN_OR_RETURN(s, GuardedStorage(size, options_.guard));
    }
    if (!bytes.empty()) std::memcpy(s->data(), bytes.data(), bytes.size());
    live_[name] = s;
    return s;
  }

  // --- a call ---

  // Reads a call's arguments, runs it and compares everything that it may have changed. The parts share the storages
  // by name, which belong to one call.
  absl::Status RunCall(const Json& call) {
    const std::string where = absl::StrCat(path_, ": calls[", call_, "]");
    if (!call.is_object() || !call.contains("args") || !call["args"].is_array())
      return Bad(where, "a list \"args\" expected");
    method_ = instance_.get();
    if (call.contains("method")) {
      if (!call["method"].is_string()) return Bad(where, "the name of a \"method\" expected");
      const absl::StatusOr<Instance*> method = instance_->Method(call["method"].get<std::string>());
      if (!method.ok()) return Bad(where, method.status().message());
      method_ = *method;
    } else if (program_->method_names().size() > 1) {
      return Bad(where, absl::StrCat("a \"method\" expected, one of ", absl::StrJoin(program_->method_names(), ", ")));
    }
    std::vector<Datum> args;
    std::vector<Tensor> tensors;
    std::vector<std::string> arg_storages;
    std::vector<std::pair<Stated, Tensor>> made;
    for (size_t i = 0; i < call["args"].size(); ++i) {
      const Json& a = call["args"][i];
      const std::string at = absl::StrCat(where, ".args[", i, "]");
      if (!a.is_object()) return Bad(at, "an object expected");
      if (!a.contains("storage")) {
        SMELT_ASSIGN_OR_RETURN(Datum v, ReadScalarArg(a, at));
        args.push_back(std::move(v));
        continue;
      }
      SMELT_ASSIGN_OR_RETURN(Stated s, ReadStated(a, at));
      SMELT_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, LiveStorage(s.storage));
      s.geometry.offset += OriginOf(s.storage) / ItemSize(s.dtype);
      if (!Reaches(s.geometry, ItemSize(s.dtype), storage->bytes()))
        return Bad(at, "the tensor reaches past its storage");
      Tensor t;
      const bool distinct = a.contains("distinct") && a["distinct"].is_boolean() && a["distinct"].get<bool>();
      if (!distinct) {
        for (const auto& [other, tensor] : made) {
          if (other.storage == s.storage && other.dtype == s.dtype && other.geometry == s.geometry) {
            t = tensor;
            break;
          }
        }
      }
      // The very tensor that an earlier call returned, or one like it.
      for (size_t k = 0; !distinct && !t.defined() && k < returned_.size(); ++k) {
        const Tensor& r = returned_[k];
        if (r.storage() == storage && r.dtype() == s.dtype && r.geometry() == s.geometry) t = r;
      }
      if (!t.defined()) t = Tensor(storage, s.dtype, s.geometry);
      made.push_back({s, t});
      tensors.push_back(t);
      arg_storages.push_back(s.storage);
      args.push_back(Datum(t));
    }
    const bool raises = call.contains("raises");
    std::vector<std::string> before_bytes;
    std::vector<Geometry> before_geometry;
    std::vector<SavedState> before_state;
    if (is_checked_) {
      before_state = Snapshot();
      if (raises) {
        for (const Tensor& t : tensors) {
          before_bytes.push_back(std::string(t.storage()->data(), t.storage()->bytes()));
          before_geometry.push_back(t.geometry());
        }
      }
    }
    SMELT_RETURN_IF_ERROR(MoveAll(program_->on_device()));
    const auto begin = std::chrono::steady_clock::now();
    absl::StatusOr<std::vector<Datum>> result = method_->Run(args);
    latencies_.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count());
    SMELT_RETURN_IF_ERROR(MoveAll(Device::Cpu()));
    for (const Tensor& t : tensors) SMELT_RETURN_IF_ERROR(t.storage()->MoveTo(Device::Cpu()));
    if (result.ok()) {
      for (const Datum& v : *result) {
        if (v.IsTensor()) SMELT_RETURN_IF_ERROR(v.tensor().storage()->MoveTo(Device::Cpu()));
      }
    }
    if (is_checked_) NoteStats(result.ok());
    // The names that later calls may use.
    for (const std::string& name : arg_storages) {
      live_[name + ".after"] = live_[name];
      if (auto it = origins_.find(name); it != origins_.end()) origins_[name + ".after"] = it->second;
    }
    // Exhausted memory says nothing about the answer.
    if (result.status().code() == absl::StatusCode::kResourceExhausted)
      return absl::ResourceExhaustedError(absl::StrCat(where, ": ", result.status().message()));
    if (raises) {
      if (!is_checked_) return absl::OkStatus();
      if (result.ok()) {
        Fail("call", absl::StrCat("accepted, but PyTorch refuses: ", call["raises"].dump()));
        return absl::OkStatus();
      }
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (std::string(tensors[i].storage()->data(), tensors[i].storage()->bytes()) != before_bytes[i] ||
            !(tensors[i].geometry() == before_geometry[i])) {
          Fail(absl::StrCat("args[", i, "]"), "modified by a refused call");
        }
      }
      CheckUntouchedStates(before_state, {});
      return absl::OkStatus();
    }
    if (!result.ok()) {
      Fail("call", absl::StrCat("refused: ", result.status().message()));
      return absl::OkStatus();
    }
    return CheckCall(call, where, tensors, arg_storages, *result, before_state);
  }

  absl::StatusOr<Datum> ReadScalarArg(const Json& a, const std::string& at) {
    if (a.contains("none")) return Datum();
    if (a.contains("int") && a["int"].is_number_integer()) return Datum(a["int"].get<int64_t>());
    if (a.contains("bool") && a["bool"].is_boolean()) return Datum(a["bool"].get<bool>());
    if (a.contains("float")) {
      if (auto v = Number(a["float"])) return Datum(*v);
    }
    if (a.contains("string") && a["string"].is_string()) return Datum(a["string"].get<std::string>());
    if (a.contains("complex") && a["complex"].is_array() && a["complex"].size() == 2) {
      const std::optional<double> re = Number(a["complex"][0]), im = Number(a["complex"][1]);
      if (re && im) return Datum(std::complex<double>(*re, *im));
    }
    return Bad(at, "a tensor, int, float, bool, string, complex or none expected");
  }

  void ForgetStats() {
    CaseReport fresh;
    fresh.failures = std::move(report_.failures);
    fresh.max_abs_err = report_.max_abs_err;
    fresh.max_rel_err = report_.max_rel_err;
    report_ = std::move(fresh);
  }

  void NoteStats(bool ok) {
    if (!ok) {
      report_.alias_variants.push_back("");
      return;
    }
    const CallStats& s = method_->last_call();
    report_.kernel_launches += s.kernel_launches;
    report_.library_calls += s.library_calls;
    report_.bytes_copied_back += s.bytes_copied_back;
    report_.host_steps += s.host_steps;
    report_.bytes_to_host += s.bytes_to_host;
    report_.bytes_to_device += s.bytes_to_device;
    report_.device_waits += s.device_waits;
    report_.graph_launches += s.graph_launches;
    report_.cublaslt_products += s.cublaslt_products;
    report_.arena_bytes = std::max(report_.arena_bytes, s.arena_bytes);
    switch (s.variant) {
      case AliasVariant::kDistinct:
        report_.alias_variants.push_back("distinct");
        break;
      case AliasVariant::kDuplicate:
        report_.alias_variants.push_back("duplicate");
        break;
      case AliasVariant::kOverlap:
        report_.alias_variants.push_back("overlap");
        break;
      case AliasVariant::kEagerOrder:
        report_.alias_variants.push_back("eager-order");
        break;
    }
  }

  // --- checking ---
  bool IsConstant(size_t state) const { return program_->states()[state].kind == StateInfo::Kind::kConstant; }
  absl::Status CheckCall(const Json& call, const std::string& where, const std::vector<Tensor>& args,
                         const std::vector<std::string>& arg_storages, const std::vector<Datum>& outputs,
                         const std::vector<SavedState>& before_state) {
    names_.clear();
    shift_.clear();
    covered_.clear();
    state_storages_.clear();
    replaced_.clear();
    for (size_t i = 0; i < program_->states().size(); ++i) {
      if (!IsConstant(i)) state_storages_.insert(instance_->state(static_cast<int>(i)).storage().get());
    }
    for (size_t i = 0; i < args.size(); ++i) names_[arg_storages[i] + ".after"] = live_[arg_storages[i]].get();
    const Json empty = Json::array();
    const Json& want_outputs = call.contains("outputs") ? call["outputs"] : empty;
    const Json& want_args = call.contains("after_args") ? call["after_args"] : empty;
    const Json& want_state = call.contains("after_state") ? call["after_state"] : empty;
    if (!want_outputs.is_array() || !want_args.is_array() || !want_state.is_array())
      return Bad(where, "lists outputs, after_args and after_state expected");
    // States come first: they determine which names are theirs.
    std::set<std::string> stated;
    for (const Json& s : want_state) {
      if (!s.is_object() || !s.contains("name") || !s["name"].is_string())
        return Bad(where, "after_state: a name expected");
      const std::string name = s["name"].get<std::string>();
      stated.insert(name);
      int index = -1;
      for (size_t i = 0; i < program_->states().size(); ++i) {
        if (program_->states()[i].name == name) index = static_cast<int>(i);
      }
      if (index < 0) {
        if (is_checked_) Fail(absl::StrCat("state ", name), "the bundle has no such state");
        continue;
      }
      SMELT_RETURN_IF_ERROR(CheckTensor(s, absl::StrCat("state ", name), where, instance_->state(index)));
    }
    if (want_outputs.size() != outputs.size()) {
      Fail("outputs", absl::StrCat(outputs.size(), " instead of ", want_outputs.size()));
    } else {
      for (size_t k = 0; k < outputs.size(); ++k)
        SMELT_RETURN_IF_ERROR(CheckOutput(want_outputs[k], absl::StrCat("outputs[", k, "]"), where, outputs[k], args));
    }
    size_t at = 0;
    if (want_args.size() != args.size()) {
      Fail("after_args", absl::StrCat(args.size(), " tensors instead of ", want_args.size()));
    } else {
      for (const Json& a : want_args) {
        SMELT_RETURN_IF_ERROR(CheckTensor(a, absl::StrCat("after_args[", at, "]"), where, args[at]));
        ++at;
      }
    }
    if (!is_checked_) return absl::OkStatus();
    // The bytes that no tensor covers.
    for (const std::string& name : std::set<std::string>(arg_storages.begin(), arg_storages.end())) {
      auto want = file_->entries().find(name + ".after");
      // In memory that the model made, bytes that no tensor covers cannot be observed.
      if (want == file_->entries().end() || origins_.count(name) != 0) continue;
      const Storage& got = *live_[name];
      if (got.bytes() != static_cast<int64_t>(want->second.bytes.size())) {
        Fail(name, absl::StrCat(got.bytes(), " bytes instead of ", want->second.bytes.size()));
        continue;
      }
      std::vector<bool> covered(got.bytes(), false);
      for (const auto& [storage, s] : covered_) {
        if (storage != name + ".after") continue;
        const int item = ItemSize(s.dtype);
        if (!Reaches(s.geometry, item, got.bytes())) return Bad(where, absl::StrCat("a tensor reaches past ", storage));
        ForEachElement(s.geometry, item, [&](int64_t byte) {
          for (int b = 0; b < item; ++b) covered[byte + b] = true;
        });
      }
      for (int64_t b = 0; b < got.bytes(); ++b) {
        if (!covered[b] && got.data()[b] != want->second.bytes[b]) {
          Fail(name, absl::StrCat("byte ", b, ", which no tensor covers, differs"));
          break;
        }
      }
    }
    CheckUntouchedStates(before_state, stated);
    return absl::OkStatus();
  }

  // The bytes of stated states have been compared already. One memory may have several names, and the case states those
  // that the model's author gave.
  void CheckUntouchedStates(const std::vector<SavedState>& before, const std::set<std::string>& stated) {
    std::map<const Storage*, std::vector<bool>> seen;
    for (size_t i = 0; i < before.size(); ++i) {
      if (stated.count(program_->states()[i].name) == 0) continue;
      const Tensor t = instance_->state(static_cast<int>(i));
      std::vector<bool>& bytes = seen[t.storage().get()];
      bytes.resize(t.storage()->bytes());
      ForEachElement(t.geometry(), ItemSize(t.dtype()), [&](int64_t b) {
        for (int64_t at = b; at < b + ItemSize(t.dtype()); ++at) bytes[at] = true;
      });
    }
    for (size_t i = 0; i < before.size(); ++i) {
      const std::string& name = program_->states()[i].name;
      // A case says nothing about a constant (an attribute that is not a buffer).
      if (stated.count(name) != 0 || IsConstant(i)) continue;
      const Tensor t = instance_->state(static_cast<int>(i));
      bool same = t.storage() == before[i].storage && t.geometry() == before[i].geometry &&
                  t.storage()->bytes() == static_cast<int64_t>(before[i].bytes.size());
      if (same) {
        const auto known = seen.find(t.storage().get());
        ForEachElement(t.geometry(), ItemSize(t.dtype()), [&](int64_t b) {
          for (int64_t at = b; at < b + ItemSize(t.dtype()); ++at) {
            same =
                same && (t.storage()->data()[at] == before[i].bytes[at] || (known != seen.end() && known->second[at]));
          }
        });
      }
      if (!same) Fail(absl::StrCat("state ", name), "changed, though it must not");
    }
  }

  absl::Status CheckOutput(const Json& want, const std::string& at, const std::string& where, const Datum& got,
                           const std::vector<Tensor>& args) {
    if (!want.is_object()) return Bad(where, absl::StrCat(at, ": an object expected"));
    if (want.contains("storage")) {
      if (!got.IsTensor()) {
        Fail(at, "no tensor");
        return absl::OkStatus();
      }
      SMELT_RETURN_IF_ERROR(CheckTensor(want, at, where, got.tensor()));
      // Finds the argument that it is.
      int same = -1, position = 0;
      std::vector<int> positions;
      for (const Json& a : doc_["calls"][call_]["args"]) {
        if (a.is_object() && a.contains("storage")) positions.push_back(position);
        ++position;
      }
      for (size_t i = args.size(); i-- > 0;) {
        if (args[i].IsSame(got.tensor())) same = positions[i];
      }
      const int expected =
          want.contains("same_as_arg") && want["same_as_arg"].is_number_integer() ? want["same_as_arg"].get<int>() : -1;
      bool fits = same == expected;
      if (!fits && expected >= 0) {
        for (size_t i = 0; i < args.size(); ++i)
          fits = fits || (positions[i] == expected && args[i].IsSame(got.tensor()));
      }
      if (!fits)
        Fail(at, expected >= 0 ? absl::StrCat("not the very argument ", expected)
                               : absl::StrCat("the very argument ", same, ", but another tensor is expected"));
      return absl::OkStatus();
    }
    if (want.contains("none")) {
      if (!got.IsNone()) Fail(at, "something instead of none");
    } else if (want.contains("bool")) {
      if (!want["bool"].is_boolean()) return Bad(where, absl::StrCat(at, ": bool expects true or false"));
      if (!got.IsBool() || got.as_bool() != want["bool"].get<bool>())
        Fail(at, absl::StrCat("instead of ", want["bool"].dump()));
    } else if (want.contains("int")) {
      if (!want["int"].is_number_integer()) return Bad(where, absl::StrCat(at, ": int expects an integer"));
      if (!got.IsInt() || got.as_int() != want["int"].get<int64_t>())
        Fail(at, absl::StrCat(got.IsInt() ? absl::StrCat(got.as_int()) : "no int", " instead of ", want["int"].dump()));
    } else if (want.contains("float")) {
      if (!Number(want["float"])) return Bad(where, absl::StrCat(at, ": float expects a number"));
      const double w = *Number(want["float"]);
      const double g = got.IsFloat() ? got.as_float() : got.IsInt() ? static_cast<double>(got.as_int()) : std::nan("");
      if (!got.IsFloat() || !Close(g, w, rtol_)) Fail(at, absl::StrCat(g, " instead of ", w));
    } else {
      return Bad(where, absl::StrCat(at, ": a tensor or a number expected"));
    }
    return absl::OkStatus();
  }

  bool Close(double got, double want, double rtol) {
    if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
    if (std::isinf(want) || std::isinf(got)) return got == want;
    const double err = std::fabs(got - want);
    report_.max_abs_err = std::max(report_.max_abs_err, err);
    if (want != 0) report_.max_rel_err = std::max(report_.max_rel_err, err / std::fabs(want));
    return err <= atol_ + rtol * std::fabs(want);
  }

  absl::Status CheckTensor(const Json& want_json, const std::string& at, const std::string& where, const Tensor& got) {
    SMELT_ASSIGN_OR_RETURN(Stated want, ReadStated(want_json, absl::StrCat(where, ".", at)));
    covered_.push_back({want.storage, want});
    // Later calls may name this storage.
    const bool known = live_.count(want.storage) != 0;
    if (!known) {
      live_[want.storage] = got.storage();
      // The case holds the bytes that tensors reach.
      if (!absl::EndsWith(want.storage, ".after"))
        origins_[want.storage] = (got.offset() - want.geometry.offset) * ItemSize(want.dtype);
    }
    if (!absl::StartsWith(at, "state ")) returned_.push_back(got);  // a state's own handle is the model's
    if (!is_checked_) return absl::OkStatus();
    if (got.dtype() != want.dtype) {
      Fail(at, absl::StrCat("dtype ", Name(got.dtype()), " instead of ", Name(want.dtype)));
      return absl::OkStatus();
    }
    if (got.geometry().sizes != want.geometry.sizes) {
      Fail(at, absl::StrCat("geometry ", got.geometry().ToString(), " instead of ", want.geometry.ToString()));
      return absl::OkStatus();
    }
    const bool free = want_json.contains("strides_free") && want_json["strides_free"].is_boolean() &&
                      want_json["strides_free"].get<bool>();
    for (int d = 0; d < got.rank() && !free; ++d) {
      if (want.geometry.sizes[d] > 1 && got.strides()[d] != want.geometry.strides[d] && got.NumElements() > 0) {
        Fail(at, absl::StrCat("geometry ", got.geometry().ToString(), " instead of ", want.geometry.ToString()));
        break;
      }
    }
    SMELT_ASSIGN_OR_RETURN(absl::string_view bytes, FileBytes(want.storage));
    CheckSharing(want, at, got, bytes.empty());
    return CheckValues(want, at, where, got, bytes);
  }

  void CheckSharing(const Stated& want, const std::string& at, const Tensor& got, bool no_bytes) {
    if (no_bytes || got.storage()->bytes() == 0) return;
    const Storage* storage = got.storage().get();
    const bool lives_elsewhere = absl::EndsWith(want.storage, ".after");
    auto [it, fresh] = names_.try_emplace(want.storage, storage);
    if (it->second != storage) {
      Fail(at, absl::StrCat("not in the memory of ", want.storage));
      return;
    }
    for (const auto& [name, other] : names_) {
      if (other == storage && name != want.storage) {
        Fail(at, absl::StrCat("shares memory with ", name, ", though it must not"));
        return;
      }
    }
    const bool in_state = state_storages_.count(storage) != 0;
    // Nothing can see whether a state that was replaced has moved. The check above distinguishes others that share its
    // new memory.
    const bool of_state = absl::StartsWith(at, "state ");
    if (of_state) replaced_.insert(want.storage);
    if (in_state && !lives_elsewhere && replaced_.count(want.storage) == 0)
      Fail(at, "lives in the model's state, though it must not");
    const int item = ItemSize(want.dtype);
    const int64_t shift = (got.offset() - want.geometry.offset) * item;
    if (want.geometry.NumElements() == 0) return;
    if (lives_elsewhere) {
      if (shift != OriginOf(want.storage))
        Fail(at, absl::StrCat("offset ", got.offset(), " instead of ", want.geometry.offset));
    } else {
      auto [s, first] = shift_.try_emplace(want.storage, shift);
      if (s->second != shift)
        Fail(at, absl::StrCat("offset ", got.offset(), " does not fit that of other tensors in ", want.storage));
    }
    (void)fresh;
  }

  absl::Status CheckValues(const Stated& want, const std::string& at, const std::string& where, const Tensor& got,
                           absl::string_view bytes) {
    const int item = ItemSize(want.dtype);
    if (!Reaches(want.geometry, item, static_cast<int64_t>(bytes.size())))
      return Bad(where, absl::StrCat(at, " reaches past its storage"));
    if (!got.InBounds()) {
      Fail(at, "reaches past its storage");
      return absl::OkStatus();
    }
    double rtol = rtol_;
    if (want.dtype == DType::kFloat16) rtol = std::max(rtol, 1e-3);
    if (want.dtype == DType::kBFloat16) rtol = std::max(rtol, 1.6e-2);
    const bool approximate = IsFloating(want.dtype) || IsComplex(want.dtype);
    const int parts = IsComplex(want.dtype) ? 2 : 1;
    int64_t wrong = 0;
    std::string first;
    // Both in index order; their strides may differ.
    const int64_t elements = want.geometry.NumElements();
    const int rank = want.geometry.rank();
    std::vector<int64_t> index(static_cast<size_t>(rank), 0);
    int64_t want_at = want.geometry.offset, got_at = got.offset();
    for (int64_t i = 0; i < elements; ++i) {
      const char* w = bytes.data() + want_at * item;
      const char* g = got.storage()->data() + got_at * item;
      if (!approximate) {
        if (std::memcmp(w, g, item) != 0 && ++wrong == 1) first = absl::StrCat("element ", i, " differs");
      } else {
        for (int p = 0; p < parts; ++p) {
          const double a = LoadDouble(g + p * item / parts, want.dtype),
                       b = LoadDouble(w + p * item / parts, want.dtype);
          if (!Close(a, b, rtol) && ++wrong == 1) first = absl::StrCat("element ", i, " is ", a, " instead of ", b);
        }
      }
      for (int d = rank - 1; d >= 0; --d) {
        want_at += want.geometry.strides[d];
        got_at += got.strides()[d];
        if (++index[d] < want.geometry.sizes[d]) break;
        want_at -= want.geometry.strides[d] * want.geometry.sizes[d];
        got_at -= got.strides()[d] * want.geometry.sizes[d];
        index[d] = 0;
      }
    }
    if (wrong > 0) Fail(at, absl::StrCat("values: ", first, " (", wrong, " of ", elements, ")"));
    return absl::OkStatus();
  }

  std::shared_ptr<const Program> program_;
  const std::string path_;
  const CaseOptions& options_;
  std::unique_ptr<SafetensorsFile> file_;
  Json doc_;
  double rtol_ = 0, atol_ = 0;
  std::unique_ptr<Instance> instance_;
  Instance* method_ = nullptr;  // that the present call is of
  bool is_checked_ = true;      // the round
  int call_ = 0;
  std::map<std::string, std::shared_ptr<Storage>> live_;
  std::map<std::string, const Storage*> names_;  // storages of the case -> the memory they turned out to be
  std::map<std::string, int64_t> origins_;       // of storages that calls returned, as long as they live
  std::map<std::string, int64_t> shift_;         // fresh storages: offset here minus offset there
  std::vector<std::pair<std::string, Stated>> covered_;
  std::vector<Tensor> returned_;  // by the calls so far
  std::set<const Storage*> state_storages_;
  std::set<std::string> replaced_;  // storages in which states are after the call
  CaseReport report_;
  std::vector<double> latencies_;
};

}  // namespace

absl::StatusOr<CaseReport> RunCase(const std::shared_ptr<const Program>& program, const std::string& case_path,
                                   const CaseOptions& options) {
  return CatchOutOfMemory([&] { return CaseRunner(program, case_path, options).Run(); });
}

}  // namespace smelt
