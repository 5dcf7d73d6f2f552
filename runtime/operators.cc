#include "smelt/runtime/operators.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/schema/bundle_generated.h"

namespace smelt {
namespace {

struct Registry {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<const OperatorFunction>, std::less<>> operators;

  static Registry& Get() {
    static Registry& registry = *new Registry;
    return registry;
  }
};

std::string KeyOf(absl::string_view name) { return std::string(absl::StripSuffix(name, ".default")); }

// Checks the results of one call.
class Results {
 public:
  Results(const fb::CustomOperatorT& op, const fb::EagerInstrT& instr, const StatedSizes& sizes,
          const std::vector<OperatorValue>& args)
      : op_(op), instr_(instr), sizes_(sizes), args_(args) {}

  absl::Status Check(std::vector<OperatorValue>& results) {
    if (results.size() != op_.results.size())
      return Refuse(absl::StrCat(results.size(), " results were given, ", op_.results.size(), " are expected"));
    for (size_t k = 0; k < results.size(); ++k) {
      OperatorValue& r = results[k];
      const fb::CustomResultT& stated = *op_.results[k];
      if (stated.is_argument && !r.is_list && r.datum.IsNone()) r = args_[stated.shares[0]];
      switch (stated.kind) {
        case fb::CustomResultKind::Tensor:
          SMELT_RETURN_IF_ERROR(CheckTensor(k, 0, r));
          break;
        case fb::CustomResultKind::Tensors: {
          if (!r.is_list) return Refuse(NameOf(k), " is ", r.datum.KindName(), ", expected a list of tensors");
          const size_t wanted = instr_.stated[k]->tensors.size();
          if (wanted > 0 && r.list.size() != wanted)
            return Refuse(NameOf(k), " is a list of ", r.list.size(), " tensors, expected ", wanted);
          for (size_t i = 0; i < r.list.size(); ++i) SMELT_RETURN_IF_ERROR(CheckTensor(k, i, r.list[i]));
          break;
        }
        case fb::CustomResultKind::Int:
          if (r.is_list || !r.datum.IsInt()) return WrongKind(k, r, "an int");
          break;
        case fb::CustomResultKind::Float:
          if (!r.is_list && r.datum.IsInt()) r.datum = static_cast<double>(r.datum.as_int());
          if (r.is_list || !r.datum.IsFloat()) return WrongKind(k, r, "a float");
          break;
        case fb::CustomResultKind::Bool:
          if (r.is_list || !r.datum.IsBool()) return WrongKind(k, r, "a bool");
          break;
      }
    }
    return absl::OkStatus();
  }

 private:
  template <typename... What>
  absl::Status Refuse(const What&... what) const {
    return absl::FailedPreconditionError(absl::StrCat(op_.name, ": ", what...));
  }
  std::string NameOf(size_t k) const {
    const std::string& name = op_.results[k]->name;
    return name.empty() ? absl::StrCat("result ", k) : absl::StrCat("result \"", name, "\"");
  }
  std::string NameOf(size_t k, size_t element) const {
    const bool list = op_.results[k]->kind == fb::CustomResultKind::Tensors;
    return list ? absl::StrCat("tensor ", element, " of ", NameOf(k)) : NameOf(k);
  }
  absl::Status WrongKind(size_t k, const OperatorValue& r, absl::string_view expected) const {
    return Refuse(NameOf(k), " is ", r.is_list ? "a list" : r.datum.KindName(), ", expected ", expected);
  }
  static std::string TypeText(DType dtype, absl::Span<const int64_t> sizes) {
    return absl::StrCat(
        Name(dtype), "[",
        absl::StrJoin(sizes, ", ",
                      [](std::string* out, int64_t n) { n < 0 ? out->push_back('?') : absl::StrAppend(out, n); }),
        "]");
  }

  absl::Status CheckTensor(size_t k, size_t element, OperatorValue& r) {
    const std::string name = NameOf(k, element);
    if (r.is_list || !r.datum.IsTensor() || !r.datum.tensor().defined())
      return Refuse(name, " is ", r.is_list ? "a list" : r.datum.KindName(), ", expected a tensor");
    const Tensor t = r.datum.tensor();
    if (!t.InBounds()) return Refuse(name, " reaches outside its memory");
    if (element < instr_.stated[k]->tensors.size()) {
      const DType dtype = static_cast<DType>(instr_.stated[k]->tensors[element]->dtype);
      const std::vector<int64_t>& sizes = sizes_[k][element];
      bool fits = t.dtype() == dtype && t.sizes().size() == sizes.size();
      for (size_t d = 0; fits && d < sizes.size(); ++d) fits = sizes[d] < 0 || sizes[d] == t.sizes()[d];
      if (!fits) return Refuse(name, " is ", TypeText(t.dtype(), t.sizes()), ", expected ", TypeText(dtype, sizes));
    }
    return CheckMemory(k, name, r);
  }

  // The bytes that a tensor reaches; none if both are equal.
  struct Bytes {
    const char *low, *high;
    bool Meet(const Bytes& o) const { return low < o.high && o.low < high; }
  };
  static Bytes BytesOf(const Tensor& t) {
    const auto [low, high] = t.geometry().Span();
    const int item = ItemSize(t.dtype());
    return {t.storage()->data() + low * item, t.storage()->data() + high * item};
  }

  // Calls f(storage) for the memory of an argument's tensors until it returns true.
  template <typename F>
  static bool AnyStorage(const OperatorValue& v, const F& f) {
    if (v.is_list) return std::any_of(v.list.begin(), v.list.end(), [&](const auto& e) { return AnyStorage(e, f); });
    return v.datum.IsTensor() && v.datum.tensor().defined() && f(v.datum.tensor().storage());
  }

  absl::Status CheckMemory(size_t k, const std::string& name, OperatorValue& r) {
    const fb::CustomResultT& stated = *op_.results[k];
    const Tensor t = r.datum.tensor();
    const Bytes bytes = BytesOf(t);
    const auto holds = [&](const std::shared_ptr<Storage>& s) {
      return t.storage() == s || bytes.Meet({s->data(), s->data() + s->bytes()});
    };
    // A tensor in an argument's memory gets that memory's storage, so that the program sees what they share.
    std::shared_ptr<Storage> home;
    bool allowed = false;
    int in_argument = -1;
    for (size_t a = 0; a < args_.size(); ++a) {
      AnyStorage(args_[a], [&](const std::shared_ptr<Storage>& s) {
        if (!holds(s)) return false;
        home = s;
        in_argument = static_cast<int>(a);
        allowed = allowed || std::find(stated.shares.begin(), stated.shares.end(), in_argument) != stated.shares.end();
        return allowed;
      });
      if (allowed) break;
    }
    if (home != nullptr && !allowed) {
      return Refuse(name, " is in the memory of argument \"", op_.args[in_argument]->name,
                    "\", which the operator's schema does not say: ", op_.schema);
    }
    if (stated.is_argument) {
      const Tensor& argument = args_[stated.shares[0]].datum.tensor();
      const bool same = t.NumElements() == 0 || (t.data() == argument.data() && t.strides() == argument.strides());
      if (!same || t.dtype() != argument.dtype() || t.sizes() != argument.sizes())
        return Refuse(name, " is not argument \"", op_.args[stated.shares[0]]->name, "\", which the schema says it is");
      r = args_[stated.shares[0]];
      return absl::OkStatus();
    }
    if (home != nullptr) {
      if (t.storage() == home) return absl::OkStatus();
      const int64_t at = static_cast<const char*>(t.data()) - home->data();
      if (bytes.low < home->data() || bytes.high > home->data() + home->bytes() || at % ItemSize(t.dtype()) != 0)
        return Refuse(name, " is partly in the memory of argument \"", op_.args[in_argument]->name, "\"");
      Geometry g = t.geometry();
      g.offset = at / ItemSize(t.dtype());
      r.datum = Datum(Tensor(home, t.dtype(), std::move(g)));
      return absl::OkStatus();
    }
    for (const auto& [other, where] : own_) {
      if (!bytes.Meet(where) || bytes.low == bytes.high) continue;
      return Refuse(name, " and ", other, " share memory, which the operator's schema does not say");
    }
    own_.push_back({name, bytes});
    // Nothing says how long lent memory lives.
    if (t.storage()->is_borrowed()) r.datum = Datum(t.CloneWithGaps());
    return absl::OkStatus();
  }

  const fb::CustomOperatorT& op_;
  const fb::EagerInstrT& instr_;
  const StatedSizes& sizes_;
  const std::vector<OperatorValue>& args_;
  std::vector<std::pair<std::string, Bytes>> own_;  // results in memory of their own
};

}  // namespace

absl::Status RegisterOperator(absl::string_view name, OperatorFunction function) {
  const std::string key = KeyOf(name);
  const size_t colons = key.find("::");
  if (colons == 0 || colons == std::string::npos || colons + 2 == key.size() || function == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", key,
                     "\": an operator's name, NAMESPACE::NAME or NAMESPACE::NAME.OVERLOAD, and an "
                     "implementation of it expected"));
  }
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  auto made = std::make_shared<const OperatorFunction>(std::move(function));
  if (!registry.operators.try_emplace(key, std::move(made)).second)
    return absl::AlreadyExistsError(absl::StrCat(key, " has an implementation already"));
  return absl::OkStatus();
}

bool UnregisterOperator(absl::string_view name) {
  std::shared_ptr<const OperatorFunction> last;  // destroyed after the lock, since its destructor may call back
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto it = registry.operators.find(KeyOf(name));
  if (it == registry.operators.end()) return false;
  last = std::move(it->second);
  registry.operators.erase(it);
  return true;
}

std::shared_ptr<const OperatorFunction> FindOperator(absl::string_view name) {
  Registry& registry = Registry::Get();
  std::lock_guard<std::mutex> lock(registry.mutex);
  const auto it = registry.operators.find(KeyOf(name));
  return it == registry.operators.end() ? nullptr : it->second;
}

absl::StatusOr<std::vector<OperatorValue>> CallOperator(const fb::CustomOperatorT& op, const OperatorFunction& function,
                                                        const fb::EagerInstrT& instr, const StatedSizes& sizes,
                                                        std::vector<OperatorValue> args) {
  OperatorCall call{op.name, args, {}, {}};
  for (const auto& a : op.args) call.writes.push_back(a->writes);
  call.results.resize(op.results.size());
  absl::Status ran;
  try {
    ran = function(call);
  } catch (const std::bad_alloc&) {
    throw;  // core/base/out_of_memory.h
  } catch (const std::exception& e) {
    ran = absl::FailedPreconditionError(e.what());
  } catch (...) {
    ran = absl::FailedPreconditionError("its implementation threw something that is no std::exception");
  }
  if (!ran.ok()) {
    const std::string message = absl::StrCat(op.name, ": ", ran.message());
    return absl::IsResourceExhausted(ran) ? absl::ResourceExhaustedError(message)
                                          : absl::FailedPreconditionError(message);
  }
  SMELT_RETURN_IF_ERROR(Results(op, instr, sizes, args).Check(call.results));
  return std::move(call.results);
}

}  // namespace smelt
