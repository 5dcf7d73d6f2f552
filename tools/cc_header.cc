#include "smelt/tools/cc_header.h"

#include <elf.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "smelt/core/base/status_macros.h"
#include "smelt/core/convention/call_structure.h"
#include "smelt/core/tensor/dtype.h"
#include "smelt/schema/bundle_signature.h"

namespace smelt {
namespace {

// The C++ types, by DType. Those with a capital letter are of namespace smelt.
const char* const kElements[kNumDTypes] = {"bool",
                                           "uint8_t",
                                           "int8_t",
                                           "int16_t",
                                           "int32_t",
                                           "int64_t",
                                           "Float16",
                                           "BFloat16",
                                           "float",
                                           "double",
                                           "std::complex<float>",
                                           "std::complex<double>",
                                           "Float8E4M3FN",
                                           "Float8E5M2"};

std::string ElementOf(int dtype) {
  const char* const name = kElements[dtype];
  return absl::StrCat(absl::ascii_isupper(static_cast<unsigned char>(*name)) ? "smelt::" : "", name);
}

const std::set<std::string>& Keywords() {
  static const auto* words = new std::set<std::string>{
      "alignas",      "alignof",   "and",           "asm",         "auto",       "bitand",       "bitor",
      "bool",         "break",     "case",          "catch",       "char",       "class",        "compl",
      "concept",      "const",     "continue",      "default",     "delete",     "do",           "double",
      "else",         "enum",      "explicit",      "export",      "extern",     "false",        "float",
      "for",          "friend",    "goto",          "if",          "inline",     "int",          "long",
      "mutable",      "namespace", "new",           "noexcept",    "not",        "nullptr",      "operator",
      "or",           "private",   "protected",     "public",      "register",   "requires",     "return",
      "short",        "signed",    "sizeof",        "static",      "struct",     "switch",       "template",
      "this",         "throw",     "true",          "try",         "typedef",    "typeid",       "typename",
      "union",        "unsigned",  "using",         "virtual",     "void",       "volatile",     "while",
      "xor",          "std",       "smelt",         "absl",        "int64_t",    "uint8_t",      "int8_t",
      "int16_t",      "int32_t",   "decltype",      "co_await",    "co_yield",   "co_return",    "char8_t",
      "char16_t",     "char32_t",  "consteval",     "constexpr",   "constinit",  "and_eq",       "not_eq",
      "or_eq",        "xor_eq",    "static_assert", "static_cast", "const_cast", "dynamic_cast", "reinterpret_cast",
      "thread_local", "wchar_t"};
  return *words;
}

// The names of members that are taken, and how often each was requested.
using TakenNames = std::map<std::string, int>;

// A member's name: letters, digits and single underscores, no keyword, each once.
std::string Identifier(const std::string& name, TakenNames& taken) {
  std::string out;
  for (char c : name) {
    const char next = isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    if (next == '_' && !out.empty() && out.back() == '_') continue;  // two are reserved
    out.push_back(next);
  }
  if (out.empty() || isdigit(static_cast<unsigned char>(out[0])) != 0 || out[0] == '_') out = "v" + out;
  if (Keywords().count(out) != 0) out += "_";
  std::string unique = out;
  int& n = taken[out];  // a map's elements stay where they are
  while (++n > 1) {
    unique = absl::StrCat(out, "_", n);
    if (taken.try_emplace(unique, 1).second) break;
  }
  return unique;
}

// A name of the model in a comment, which it must not end or continue.
std::string Quoted(absl::string_view name) { return absl::StrCat("\"", absl::CHexEscape(name), "\""); }

// A constant as C++ writes it.
std::string Literal(double x) {
  if (std::isnan(x)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(x)) return absl::StrCat(x < 0 ? "-" : "", "std::numeric_limits<double>::infinity()");
  return absl::StrFormat("%a", x);
}
std::string Literal(int64_t x) {
  return x == INT64_MIN ? "std::numeric_limits<int64_t>::min()" : absl::StrCat("int64_t{", x, "}");
}
// With its length: it may hold zeros.
std::string Literal(const std::string& x) {
  return absl::StrCat("std::string(\"", absl::CHexEscape(x), "\", ", x.size(), ")");
}

// Returns the ELF machine that a program with the bundle is for: that of the bundle's kernels. A bundle for two
// architectures, or for none, is linked on the machine that it is written on.
uint16_t MachineOf(const fb::BundleT& bundle) {
  bool x86 = false, arm = false;
  for (const auto& t : bundle.targets) {
    x86 |= absl::StartsWith(t->triple, "x86_64-");
    arm |= absl::StartsWith(t->triple, "aarch64-");
  }
  if (x86 != arm) return arm ? EM_AARCH64 : EM_X86_64;
#if defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_X86_64;
#endif
}

struct Member {
  std::string name, type, comment;
  bool tensor = false;
  fb::ArgKind kind = fb::ArgKind::Tensor;
};

std::string Struct(const std::string& name, const std::vector<Member>& members) {
  std::string out = absl::StrCat("struct ", name, " {\n");
  for (const Member& m : members) {
    if (m.type.empty()) continue;  // None
    absl::StrAppend(&out, "  ", m.type, " ", m.name, ";", m.comment.empty() ? "" : "  // ", m.comment, "\n");
  }
  return out + "};\n";
}

// The status of a StatusOr that says which value of the model is not of the header's type.
std::string InField(absl::string_view what, absl::string_view name, absl::string_view variable) {
  return absl::StrCat("smelt::typed_internal::InField(\"", what, " \\\"", absl::CHexEscape(name), "\\\"\", ", variable,
                      ".status())");
}

// A method: a member function of the session, and the structs that it takes and returns.
class Function {
 public:
  // `prefix` begins the structs' names. `instance` is the member of the session that runs it.
  Function(const fb::BundleT& program, std::string name, std::string prefix, std::string instance)
      : b_(program), name_(std::move(name)), prefix_(std::move(prefix)), instance_(std::move(instance)) {}

  absl::Status Read() {
    SMELT_RETURN_IF_ERROR(Inputs());
    return Outputs();
  }

  const std::string& method() const { return b_.method; }
  const std::string& instance() const { return instance_; }
  std::string Structs() const {
    return absl::StrCat(Struct(prefix_ + "Inputs", inputs_), "\n", Struct(prefix_ + "Outputs", outputs_));
  }
  std::string Declaration() const {
    return absl::StrCat("  absl::StatusOr<", prefix_, "Outputs> ", name_, "(const ", prefix_, "Inputs& in);\n");
  }
  std::string Definition() const {
    std::string run;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Member& m = outputs_[i];
      if (!m.tensor || m.type.empty()) continue;
      absl::StrAppend(&run, "  auto o", i, " = ", m.type, "::From((*results)[", i, "].tensor());\n  if (!o", i,
                      ".ok()) return ", InField("output", b_.outputs[i]->name, absl::StrCat("o", i)), ";\n");
    }
    std::vector<std::string> fields;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Member& m = outputs_[i];
      if (m.type.empty()) continue;
      const std::string result = absl::StrCat("(*results)[", i, "]");
      fields.push_back(absl::StrCat(".", m.name, " = ",
                                    m.tensor                        ? absl::StrCat("*std::move(o", i, ")")
                                    : m.kind == fb::ArgKind::Tensor ? result
                                    : m.kind == fb::ArgKind::Int    ? result + ".as_int()"
                                    : m.kind == fb::ArgKind::Float  ? result + ".as_float()"
                                    : m.kind == fb::ArgKind::Bool   ? result + ".as_bool()"
                                    : m.kind == fb::ArgKind::String ? result + ".as_string()"
                                                                    : result + ".as_complex()"));
    }
    return absl::StrCat("absl::StatusOr<", prefix_, "Outputs> Session::", name_, "([[maybe_unused]] const ", prefix_,
                        "Inputs& in) {\n  auto results = ", instance_, "->Run({", absl::StrJoin(arguments_, ", "),
                        "});\n"
                        "  if (!results.ok()) return results.status();\n"
                        "  if (absl::Status s = smelt::typed_internal::CheckNumResults(results->size(), ",
                        outputs_.size(), "); !s.ok()) return s;\n", run, "  return ", prefix_, "Outputs{",
                        absl::StrJoin(fields, ", "), "};\n}\n\n");
  }

 private:
  std::optional<int64_t> Constant(int e) const {
    if (e < 0 || b_.exprs[e].op() != fb::ExprOp::Constant) return std::nullopt;
    return b_.exprs[e].constant();
  }
  std::string TensorType(int dtype, const std::vector<int>& sizes) const {
    std::string out = absl::StrCat("smelt::TensorOf<", ElementOf(dtype));
    for (int e : sizes) {
      const std::optional<int64_t> n = Constant(e);
      absl::StrAppend(&out, ", ", n ? absl::StrCat(*n) : "smelt::kAnySize");
    }
    return out + ">";
  }
  std::string TensorType(const ResultType& type) const {
    std::string out = absl::StrCat("smelt::TensorOf<", ElementOf(type.dtype));
    for (const ResultSize& s : type.sizes) {
      const std::optional<int64_t> n = s.expr < 0 && s.number >= 0 ? s.number : Constant(s.expr);
      absl::StrAppend(&out, ", ", n ? absl::StrCat(*n) : "smelt::kAnySize");
    }
    return out + ">";
  }
  static const char* ScalarType(fb::ArgKind kind) {
    switch (kind) {
      case fb::ArgKind::Int:
        return "int64_t";
      case fb::ArgKind::Float:
        return "double";
      case fb::ArgKind::Bool:
        return "bool";
      case fb::ArgKind::Complex:
        return "std::complex<double>";
      case fb::ArgKind::String:
        return "std::string";
      default:
        return nullptr;
    }
  }

  absl::Status Inputs() {
    TakenNames taken;
    const std::vector<LeafPath> paths = LeafPaths(StructureOf(b_.argument_structure));
    for (size_t i = 0; i < b_.args.size(); ++i) {
      const auto& a = b_.args[i];
      Member m;
      m.kind = a->kind;
      if (a->kind == fb::ArgKind::None || (a->kind != fb::ArgKind::Tensor && a->has_constant)) {
        // A baked-in value: the caller does not pass it.
        const std::string value = a->kind == fb::ArgKind::None     ? "smelt::Datum()"
                                  : a->kind == fb::ArgKind::Int    ? Literal(a->int_value)
                                  : a->kind == fb::ArgKind::Bool   ? (a->int_value != 0 ? "true" : "false")
                                  : a->kind == fb::ArgKind::Float  ? Literal(a->float_value)
                                  : a->kind == fb::ArgKind::String ? Literal(a->string_value)
                                                                   : "";
        if (value.empty()) return absl::UnimplementedError(absl::StrCat("input ", a->name, " is a complex constant"));
        arguments_.push_back(absl::StrCat("smelt::Datum(", value, ")"));
        continue;
      }
      m.name = Identifier(i < paths.size() && !paths[i].text.empty() ? paths[i].text : a->name, taken);
      m.tensor = a->kind == fb::ArgKind::Tensor;
      m.type = m.tensor ? TensorType(a->dtype, a->sizes) : ScalarType(a->kind);
      arguments_.push_back(absl::StrCat("smelt::Datum(in.", m.name, m.tensor ? ".tensor())" : ")"));
      inputs_.push_back(std::move(m));
    }
    return absl::OkStatus();
  }

  absl::Status Outputs() {
    if (b_.plans.empty())
      return absl::UnimplementedError("the model refuses every call: it has no outputs to give types");
    TakenNames taken;
    const std::vector<ResultType> types = ResultTypes(b_);
    for (size_t i = 0; i < types.size(); ++i) {
      using Place = ResultType::Place;
      const ResultType& type = types[i];
      Member m;
      m.name = Identifier(b_.outputs[i]->name, taken);
      m.kind = type.kind;
      m.tensor = type.kind == fb::ArgKind::Tensor;
      if (!m.tensor) {
        if (type.kind != fb::ArgKind::None) m.type = ScalarType(type.kind);
      } else if (type.has_sizes) {
        m.type = TensorType(type);
      } else {
        m.tensor = false;  // its type is known only after a call
        m.type = "smelt::Datum";
      }
      if (type.place == Place::kIsArgument)
        m.comment = absl::StrCat("the argument ", Quoted(b_.args[type.index]->name), " itself");
      if (type.place == Place::kIsState)
        m.comment = absl::StrCat("the model's own ", Quoted(b_.states[type.index]->name));
      if (type.place == Place::kInArgument || type.place == Place::kInState)
        m.comment = "shares memory with an argument or the model's state";
      outputs_.push_back(std::move(m));
    }
    return absl::OkStatus();
  }

  const fb::BundleT& b_;
  const std::string name_, prefix_, instance_;
  std::vector<Member> inputs_, outputs_;
  std::vector<std::string> arguments_;  // of Instance::Run, baked-in ones too
};

class Maker {
 public:
  Maker(const fb::BundleT& bundle, absl::string_view file, const CcOptions& options)
      : b_(bundle), file_(file), options_(options) {}

  absl::StatusOr<CcFiles> Run() {
    if (b_.methods.empty()) functions_.emplace_back(b_, "Run", "", "instance_");
    for (const auto& m : b_.methods) AddMethod(*m);
    for (Function& f : functions_) {
      const absl::Status read = f.Read();
      if (!read.ok()) return b_.methods.empty() ? read : Annotate(read, absl::StrCat("method ", Quoted(f.method())));
    }
    States();
    CcFiles out;
    out.header = Header();
    out.source = Source();
    if (options_.embed) out.object = MakeDataObject(file_, Symbol(), MachineOf(b_));
    return out;
  }

 private:
  // "train_step" becomes TrainStep(const TrainStepInputs&).
  void AddMethod(const fb::BundleT& method) {
    std::string name;
    for (absl::string_view word : absl::StrSplit(method.method, '_', absl::SkipEmpty())) {
      absl::StrAppend(&name, word);
      name[name.size() - word.size()] = static_cast<char>(toupper(static_cast<unsigned char>(word[0])));
    }
    TakenNames none;
    const std::string first = Identifier(name, none);
    name = first;
    const auto names = [&] { return std::vector<std::string>{name, name + "Inputs", name + "Outputs"}; };
    const auto is_taken = [&](const std::string& n) { return method_names_.count(n) != 0; };
    for (int n = 2;; ++n) {
      const std::vector<std::string> all = names();
      if (std::none_of(all.begin(), all.end(), is_taken)) break;
      name = absl::StrCat(first, "_", n);
    }
    for (const std::string& n : names()) method_names_.insert(n);
    functions_.emplace_back(method, name, name, absl::StrCat("method", functions_.size(), "_"));
  }

  // The states that calls write or return: of others the instances share the memory.
  void States() {
    std::set<int> changing;  // by some call: then the type says nothing of sizes
    std::vector<const fb::PlanT*> plans;
    for (const auto& p : b_.plans) plans.push_back(p.get());
    for (const auto& m : b_.methods) {
      for (const auto& p : m->plans) plans.push_back(p.get());
    }
    for (const fb::PlanT* plan : plans) {
      if (!plan->convention->mutated) continue;
      for (const auto& m : plan->convention->mutated->inputs) {
        if (m->is_state && (m->flags & ~static_cast<int>(fb::MutationKind::Data)) != 0) changing.insert(m->arg);
      }
    }
    TakenNames taken;
    for (size_t i = 0; i < b_.states.size(); ++i) {
      const fb::StateTensorT& s = *b_.states[i];
      if (!b_.storages[s.storage]->is_mutated) continue;
      State state;
      state.index = static_cast<int>(i);
      state.member.name = Identifier(s.name, taken);
      state.member.tensor = changing.count(static_cast<int>(i)) == 0;
      state.member.type = "smelt::Tensor";
      if (state.member.tensor) {
        state.member.type = absl::StrCat("smelt::TensorOf<", ElementOf(s.dtype));
        for (int64_t n : s.sizes) absl::StrAppend(&state.member.type, ", ", n);
        state.member.type += ">";
      }
      if (state.member.name != s.name) state.member.comment = Quoted(s.name);
      states_.push_back(std::move(state));
    }
  }
  std::string StatesStruct() const {
    if (states_.empty()) return "";
    std::vector<Member> members;
    for (const State& s : states_) members.push_back(s.member);
    return absl::StrCat(
        "\n// The parameters and buffers that calls write or return, as a session has them: the very tensors. What is\n"
        "// written to them is what the next call finds.\n",
        Struct("States", members));
  }
  std::string StatesSource() const {
    if (states_.empty()) return "";
    std::string out = "absl::StatusOr<States> Session::states() const {\n";
    std::vector<std::string> fields;
    for (size_t k = 0; k < states_.size(); ++k) {
      const Member& m = states_[k].member;
      std::string tensor = absl::StrCat("instance_->state(", states_[k].index, ")");
      if (m.tensor) {
        absl::StrAppend(&out, "  auto s", k, " = ", m.type, "::From(", tensor, ");\n  if (!s", k, ".ok()) return ",
                        InField("state", b_.states[states_[k].index]->name, absl::StrCat("s", k)), ";\n");
        tensor = absl::StrCat("*std::move(s", k, ")");
      }
      fields.push_back(absl::StrCat(".", m.name, " = ", tensor));
    }
    return absl::StrCat(out, "  return States{", absl::StrJoin(fields, ", "), "};\n}\n\n");
  }
  std::string Symbol() const {
    return absl::StrCat("smelt_bundle_", absl::StrReplaceAll(options_.cc_namespace, {{"::", "_"}}));
  }
  std::string HeaderDigest() const { return absl::BytesToHexString(file_.substr(64, 32)); }

  std::string Header() const {
    std::string guard;
    for (char c : options_.header) guard.push_back(isalnum(static_cast<unsigned char>(c)) != 0 ? toupper(c) : '_');
    guard += "_";
    const std::string load =
        options_.embed ? "  // The bundle that is linked into the program.\n"
                         "  static absl::StatusOr<Model> Load(const smelt::ProgramOptions& options = {});\n"
                       : absl::StrCat(
                             "  // Where a program that Bazel runs finds the bundle.\n"
                             "  static constexpr char kBundlePath[] = \"",
                             absl::CHexEscape(options_.bundle_path),
                             "\";\n"
                             "  // InvalidArgument if it is another bundle than the one this header was made of.\n"
                             "  static absl::StatusOr<Model> Load(absl::string_view path = kBundlePath,\n"
                             "                                    const smelt::ProgramOptions& options = {});\n");
    std::vector<std::string> all;
    std::string declarations, members;
    for (const Function& f : functions_) {
      all.push_back(f.Structs());
      declarations += f.Declaration();
      if (!b_.methods.empty())
        absl::StrAppend(&members, "  smelt::Instance* ", f.instance(), " = nullptr;  // ", f.method(), "\n");
    }
    const std::string structs = absl::StrJoin(all, "\n");
    return absl::StrCat("// Made by smelt of the model \"", absl::CHexEscape(b_.model_name), "\".\n#ifndef ", guard,
                        "\n#define ", guard,
                        R"(

#include <complex>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "smelt/runtime/typed.h"

namespace )",
                        options_.cc_namespace, " {\n\n// Each by its name: Inputs{.x = x}.\n", structs, StatesStruct(),
                        R"(
// One caller at a time; see smelt::Instance.
class Session {
 public:
  // As in eager PyTorch, inputs that the model writes are written.
)",
                        declarations, states_.empty() ? "" : "  absl::StatusOr<States> states() const;\n",
                        R"(  smelt::Instance& instance() const { return *instance_; }

 private:
  friend class Model;
  explicit Session(std::unique_ptr<smelt::Instance> instance) : instance_(std::move(instance)) {}
  std::unique_ptr<smelt::Instance> instance_;
)",
                        members, R"(};

// Immutable, shared by threads; copies share it.
class Model {
 public:
)",
                        load, R"(
  absl::StatusOr<Session> NewSession(const smelt::InstanceOptions& options = {}) const;
  const std::shared_ptr<const smelt::Program>& program() const { return program_; }

 private:
  explicit Model(std::shared_ptr<const smelt::Program> program) : program_(std::move(program)) {}
  std::shared_ptr<const smelt::Program> program_;
};

}  // namespace )",
                        options_.cc_namespace, "\n\n#endif  // ", guard, "\n");
  }

  std::string Source() const {
    std::string definitions, methods;
    for (const Function& f : functions_) {
      definitions += f.Definition();
      if (b_.methods.empty()) continue;
      absl::StrAppend(&methods, "  auto ", f.instance(), " = session.instance_->Method(\"", f.method(), "\");\n  if (!",
                      f.instance(), ".ok()) return ", f.instance(), ".status();\n  session.", f.instance(), " = *",
                      f.instance(), ";\n");
    }
    const std::string load =
        options_.embed ? absl::StrCat(
                             "absl::StatusOr<Model> Model::Load(const smelt::ProgramOptions& options) {\n"
                             "  auto program = smelt::Program::LoadFromMemory(\n"
                             "      {",
                             Symbol(), ", static_cast<size_t>(", Symbol(), "_end - ", Symbol(), ")}, options, \"",
                             absl::CHexEscape(b_.model_name), "\");\n")
                       : absl::StrCat(
                             "absl::StatusOr<Model> Model::Load(absl::string_view path, const smelt::ProgramOptions& "
                             "options) {\n"
                             "  auto program = smelt::LoadBundleFile(path, \"",
                             HeaderDigest(), "\", options);\n");
    return absl::StrCat(
        "#include \"", options_.header, "\"\n\n#include <limits>\n\n",
        options_.embed ? absl::StrCat("extern \"C\" const uint8_t ", Symbol(), "[], ", Symbol(), "_end[];\n\n") : "",
        "namespace ", options_.cc_namespace, " {\n\n", load,
        "  if (!program.ok()) return program.status();\n"
        "  return Model(*std::move(program));\n"
        "}\n\n"
        "absl::StatusOr<Session> Model::NewSession(const smelt::InstanceOptions& options) const {\n"
        "  auto instance = smelt::Instance::Create(program_, options);\n"
        "  if (!instance.ok()) return instance.status();\n",
        methods.empty() ? "  return Session(*std::move(instance));\n"
                        : absl::StrCat("  Session session(*std::move(instance));\n", methods, "  return session;\n"),
        "}\n\n", definitions, StatesSource(), "}  // namespace ", options_.cc_namespace, "\n");
  }

  struct State {
    int index = 0;
    Member member;
  };

  const fb::BundleT& b_;
  const absl::string_view file_;
  const CcOptions& options_;
  std::vector<Function> functions_;
  // The names of members and structs, with those that every header has.
  std::set<std::string> method_names_ = {"Inputs", "Outputs", "Session", "Model", "States"};
  std::vector<State> states_;
};

}  // namespace

bool IsCcNamespace(const std::string& name) {
  for (absl::string_view part : absl::StrSplit(name, "::")) {
    TakenNames none;
    if (part.empty() || Identifier(std::string(part), none) != part) return false;
  }
  return true;
}

absl::StatusOr<CcFiles> MakeCc(const fb::BundleT& bundle, absl::string_view file, const CcOptions& options) {
  if (!IsCcNamespace(options.cc_namespace)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", options.cc_namespace, "\" is no name of a C++ namespace"));
  }
  if (file.size() < 96) return absl::DataLossError("the file was cut off while it was read");
  return Maker(bundle, file, options).Run();
}

}  // namespace smelt
