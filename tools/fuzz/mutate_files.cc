#include "smelt/tools/fuzz/mutate_files.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iterator>
#include <random>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "smelt/core/base/file.h"
#include "smelt/core/ir/text.h"
#include "smelt/core/op/schema.h"
#include "smelt/frontend/pt2.h"
#include "smelt/frontend/pt2_testing.h"
#include "smelt/tools/fuzz/mutation.h"

namespace smelt {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

const std::vector<std::string>& Operators() {
  static const auto* const kAll = [] {
    auto* all = new std::vector<std::string>();
    for (const absl::string_view name : AllSchemaNames()) {
      if (absl::StartsWith(name, "aten::")) all->emplace_back(name);
    }
    return all;
  }();
  return *kAll;
}

std::string TargetOf(std::string op) {
  op.replace(op.find("::"), 2, ".");
  if (std::count(op.begin(), op.end(), '.') == 1) op += ".default";
  return "torch.ops." + op;
}

}  // namespace

// --- archives ---

struct ArchiveMutator::Model {
  std::string name;
  TestArchive archive;
  Json program;
};

namespace {

// The graphs of a program, the nested ones too.
void FindGraphs(Json& json, std::vector<Json*>& out) {
  if (json.is_object() && json.contains("nodes") && json.contains("tensor_values") && json["nodes"].is_array())
    out.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& e : json) FindGraphs(e, out);
}

class ProgramMutator {
 public:
  ProgramMutator(Json& program, const Json& other, Random& random)
      : program_(program), other_(other), random_(random) {}

  void Step(std::string& what) {
    std::vector<Json*> graphs;
    FindGraphs(program_, graphs);
    if (graphs.empty()) return;
    graph_ = AnyOf(random_, graphs);
    Json& nodes = (*graph_)["nodes"];
    if (nodes.empty()) return;
    Json& node = AnyOf(random_, nodes);
    const auto say = [&](const auto&... text) { absl::StrAppend(&what, "; ", text...); };
    const std::string name = node.value("name", "?");
    Json none;
    Json& inputs = node.contains("inputs") && node["inputs"].is_array() ? node["inputs"] : none;
    switch (Below(random_, 22)) {
      case 0:
        if (inputs.size() < 2) return;
        say("swap arguments of ", name);
        std::swap(AnyOf(random_, inputs)["arg"], AnyOf(random_, inputs)["arg"]);
        return;
      case 1:
      case 2: {
        if (inputs.empty()) return;
        Json& arg = AnyOf(random_, inputs)["arg"];
        say("argument of ", name, ": ", arg.dump().substr(0, 40), " becomes another");
        arg = SomeArgument();
        return;
      }
      case 3: {
        if (inputs.empty()) return;
        const Json& from = AnyOf(random_, nodes);
        if (!from.contains("inputs") || from["inputs"].empty()) return;
        say("argument of ", name, " as another node's");
        Json arg = from["inputs"][Below(random_, from["inputs"].size())]["arg"];
        AnyOf(random_, inputs)["arg"] = std::move(arg);
        return;
      }
      case 4:
        if (inputs.empty()) return;
        say("an argument less of ", name);
        inputs.erase(Below(random_, inputs.size()));
        return;
      case 5:
        if (inputs.empty()) return;
        say("an argument of ", name, " twice");
        inputs.push_back(Json(AnyOf(random_, inputs)));
        return;
      case 6: {
        const std::string op = AnyOf(random_, Operators());
        say(name, " is ", op);
        node["target"] = TargetOf(op);
        return;
      }
      case 7: {
        const std::string target = AnyOf(random_, nodes).value("target", "");
        say(name, " is ", target);
        node["target"] = target;
        return;
      }
      case 8:
      case 9:
      case 10:
      case 11:
        return MutateType(what);
      case 12:
        say("without node ", name);
        nodes.erase(Below(random_, nodes.size()));
        return;
      case 13: {
        say("node ", name, " twice");
        const Json copy = node;
        nodes.insert(nodes.begin() + static_cast<int64_t>(Below(random_, nodes.size())), copy);
        return;
      }
      case 14:
        say("two nodes swapped");
        std::swap(AnyOf(random_, nodes), AnyOf(random_, nodes));
        return;
      case 15:
        return Splice(what);
      case 16: {
        std::vector<Json*> numbers;
        FindNumbers(node, numbers);
        if (numbers.empty()) return;
        Json& number = *AnyOf(random_, numbers);
        const int64_t i = SomeNumber(random_);
        say("number of ", name, ": ", number.dump(), " becomes ", i);
        number = i;
        return;
      }
      case 17: {
        if (!node.contains("outputs") || node["outputs"].empty()) return;
        Json& outputs = node["outputs"];
        switch (Below(random_, 4)) {
          case 0:
            say("a result less of ", name);
            outputs.erase(Below(random_, outputs.size()));
            return;
          case 1:
            say("a result of ", name, " twice");
            outputs.push_back(Json(AnyOf(random_, outputs)));
            return;
          case 2:
            say("results of ", name, " swapped");
            std::swap(AnyOf(random_, outputs), AnyOf(random_, outputs));
            return;
          default:
            say("result of ", name, " as an argument");
            AnyOf(random_, outputs) = SomeArgument();
            return;
        }
      }
      case 18: {
        Json& signature = program_["graph_module"]["signature"];
        const char* which = Below(random_, 2) == 0 ? "input_specs" : "output_specs";
        if (!signature.contains(which) || signature[which].empty()) return;
        Json& specs = signature[which];
        say("of ", which, ": ", Below(random_, 2) == 0 ? "one twice" : "two swapped");
        if (absl::EndsWith(what, "twice")) {
          specs.push_back(Json(AnyOf(random_, specs)));
        } else {
          std::swap(AnyOf(random_, specs), AnyOf(random_, specs));
        }
        return;
      }
      case 19: {
        std::vector<Json*> expressions;
        FindExpressions(program_, expressions);
        if (expressions.empty()) return;
        Json& e = *AnyOf(random_, expressions);
        static const char* const kExpressions[] = {"Symbol('s0')",
                                                   "Mul(Symbol('s0'), Symbol('s1'))",
                                                   "Integer(-3)",
                                                   "Integer(1)",
                                                   "Add(Symbol('s77'), Integer(-5))",
                                                   "FloorDiv(Symbol('s0'), Integer(0))",
                                                   "Mod(Symbol('s0'), Symbol('s0'))",
                                                   "Max(Integer(1), Symbol('u0'))",
                                                   "Pow(Symbol('s0'), Integer(16))",
                                                   "FloorDiv(Integer(7), Symbol('s0'))"};
        const std::string other =
            Below(random_, 2) == 0 ? AnyOf(random_, kExpressions) : AnyOf(random_, expressions)->dump();
        say("expression ", e.dump().substr(0, 60), " becomes ", other.substr(0, 60));
        e = absl::StartsWith(other, "\"") ? Json::parse(other) : Json(other);
        return;
      }
      case 20: {
        if (!program_.contains("range_constraints") || program_["range_constraints"].empty()) return;
        Json& ranges = program_["range_constraints"];
        auto it = ranges.begin();
        std::advance(it, Below(random_, ranges.size()));
        say("range of ", it.key());
        (*it)[Below(random_, 2) == 0 ? "min_val" : "max_val"] = SomeNumber(random_);
        return;
      }
      default: {
        Json& outputs = (*graph_)["outputs"];
        if (!outputs.is_array() || outputs.empty()) return;
        say("the graph's output becomes another value");
        AnyOf(random_, outputs) = SomeTensor();
      }
    }
  }

 private:
  std::string SomeValue() {
    const Json& values = (*graph_)["tensor_values"];
    if (!values.is_object() || values.empty()) return "x";
    auto it = values.begin();
    std::advance(it, Below(random_, values.size()));
    return it.key();
  }
  Json SomeTensor() { return {{"as_tensor", {{"name", SomeValue()}}}}; }
  Json SomeArgument() {
    switch (Below(random_, 13)) {
      case 0:
        return {{"as_none", true}};
      case 1:
        return {{"as_bool", Below(random_, 2) == 0}};
      case 2:
        return {{"as_float", Below(random_, 2) == 0 ? 0.5 : -1e300}};
      case 3:
        return {{"as_string", "mean"}};
      case 4: {
        Json list = Json::array();
        for (size_t n = Below(random_, 5); n-- > 0;) list.push_back(SomeNumber(random_));
        return {{"as_ints", list}};
      }
      case 5: {
        Json list = Json::array();
        for (size_t n = Below(random_, 4); n-- > 0;) list.push_back({{"name", SomeValue()}});
        return {{"as_tensors", list}};
      }
      case 6: {
        Json list = Json::array();
        for (size_t n = Below(random_, 4); n-- > 0;)
          list.push_back(Below(random_, 2) == 0 ? SomeTensor() : Json{{"as_none", true}});
        return {{"as_optional_tensors", list}};
      }
      case 7:
        return {{"as_scalar_type", static_cast<int64_t>(Below(random_, 15))}};
      case 8:
        return {{"as_floats", {0.5, 2.0}}};
      case 9:
      case 10:
        return {{"as_int", SomeNumber(random_)}};
      default:
        return SomeTensor();
    }
  }

  void MutateType(std::string& what) {
    const std::string name = SomeValue();
    Json& values = (*graph_)["tensor_values"];
    if (!values.contains(name) || !values[name].is_object()) return;
    Json& meta = values[name];
    Json none;
    Json& sizes = meta.contains("sizes") && meta["sizes"].is_array() ? meta["sizes"] : none;
    Json& strides = meta.contains("strides") && meta["strides"].is_array() ? meta["strides"] : none;
    absl::StrAppend(&what, "; ", name, " declared ");
    switch (Below(random_, 8)) {
      case 0:
        meta["dtype"] = 1 + static_cast<int64_t>(Below(random_, 13));
        absl::StrAppend(&what, "of another dtype");
        return;
      case 1:
        if (sizes.empty()) return;
        AnyOf(random_, sizes) = {{"as_int", SomeNumber(random_)}};
        absl::StrAppend(&what, "of another size");
        return;
      case 2:
        if (strides.empty()) return;
        AnyOf(random_, strides) = {{"as_int", SomeNumber(random_)}};
        absl::StrAppend(&what, "of another stride");
        return;
      case 3:
        sizes.push_back({{"as_int", SomeNumber(random_)}});
        strides.push_back({{"as_int", 1}});
        absl::StrAppend(&what, "of a dim more");
        return;
      case 4:
        if (sizes.empty() || strides.empty()) return;
        sizes.erase(sizes.size() - 1);
        strides.erase(strides.size() - 1);
        absl::StrAppend(&what, "of a dim less");
        return;
      case 5: {
        const Json copy = values[SomeValue()];
        meta = copy;
        absl::StrAppend(&what, "as another value");
        return;
      }
      case 6: {
        if (sizes.size() < 2 || strides.size() != sizes.size()) return;
        const size_t a = Below(random_, sizes.size()), b = Below(random_, sizes.size());
        std::swap(sizes[a], sizes[b]);
        std::swap(strides[a], strides[b]);
        absl::StrAppend(&what, "with dims swapped");
        return;
      }
      default:
        // Changes the dtype of all values alike: a consistent program for another type.
        absl::StrAppend(&what, "as all others, of another dtype");
        const int64_t from = meta.value("dtype", 0), to = 1 + static_cast<int64_t>(Below(random_, 13));
        for (Json& v : values) {
          if (v.is_object() && v.value("dtype", 0) == from) v["dtype"] = to;
        }
    }
  }

  // Inserts a node of the other model, on values of this one.
  void Splice(std::string& what) {
    Json copy = other_;
    std::vector<Json*> graphs;
    FindGraphs(copy, graphs);
    if (graphs.empty()) return;
    Json& from = *AnyOf(random_, graphs);
    if (from["nodes"].empty()) return;
    Json node = AnyOf(random_, from["nodes"]);
    absl::StrAppend(&what, "; with node ", node.value("target", "?"));
    Json& values = (*graph_)["tensor_values"];
    if (!values.is_object() || !node.contains("inputs") || !node.contains("outputs")) return;
    std::vector<Json*> names;
    FindNames(node["inputs"], names);
    for (Json* n : names) *n = SomeValue();
    names.clear();
    FindNames(node["outputs"], names);
    for (Json* n : names) {
      const std::string old = n->get<std::string>(), fresh = absl::StrCat("spliced_", random_() % 100000);
      if (from["tensor_values"].contains(old)) values[fresh] = from["tensor_values"][old];
      *n = fresh;
    }
    Json& nodes = (*graph_)["nodes"];
    nodes.insert(nodes.begin() + static_cast<int64_t>(Below(random_, nodes.size() + 1)), node);
  }

  static void FindNames(Json& json, std::vector<Json*>& out) {
    if (json.is_object()) {
      for (auto it = json.begin(); it != json.end(); ++it) {
        const bool names = it.key() == "as_tensor" || it.key() == "as_tensors";
        Json& v = *it;
        if (names && v.is_object() && v.contains("name") && v["name"].is_string()) out.push_back(&v["name"]);
        if (names && v.is_array()) {
          for (Json& e : v) {
            if (e.is_object() && e.contains("name") && e["name"].is_string()) out.push_back(&e["name"]);
          }
        }
        if (!names) FindNames(v, out);
      }
    } else if (json.is_array()) {
      for (Json& e : json) FindNames(e, out);
    }
  }
  static void FindNumbers(Json& json, std::vector<Json*>& out) {
    if (json.is_number_integer()) out.push_back(&json);
    if (!json.is_structured()) return;
    for (Json& e : json) FindNumbers(e, out);
  }
  static void FindExpressions(Json& json, std::vector<Json*>& out) {
    if (json.is_object() && json.contains("expr_str")) out.push_back(&json["expr_str"]);
    if (!json.is_structured()) return;
    for (Json& e : json) FindExpressions(e, out);
  }

  Json& program_;
  const Json& other_;
  Random& random_;
  Json* graph_ = nullptr;
};

}  // namespace

ArchiveMutator::ArchiveMutator(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (std::filesystem::file_size(path, error) > 40000 || error) continue;
    auto model = std::make_unique<Model>();
    model->name = std::filesystem::path(path).stem().string();
    model->archive = TestArchive::LoadPath(path);
    std::erase_if(model->archive.entries,
                  [](const TestZipEntry& e) { return absl::StrContains(e.name, "/data/sample_inputs/"); });
    model->program = Json::parse(model->archive.Program());
    models_.push_back(std::move(model));
  }
}
ArchiveMutator::~ArchiveMutator() = default;

HostileFile ArchiveMutator::Make(uint64_t seed) const {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  const Model& model = *AnyOf(random, models_);
  const Model& other = *AnyOf(random, models_);
  HostileFile file{model.name, ".pt2", ""};
  Json program = model.program;
  ProgramMutator mutator(program, other.program, random);
  for (size_t n = 1 + Below(random, 3); n-- > 0;) mutator.Step(file.what);
  TestArchive archive = model.archive;
  archive.Program() = program.dump(-1, ' ', false, Json::error_handler_t::replace);
  file.bytes = WriteTestZip(archive.entries);
  return file;
}

// --- texts ---

struct TextMutator::Text {
  std::vector<std::string> tokens;  // that make the text, with what is between them
};

namespace {

enum class TokenKind { kSpace, kName, kValue, kNumber, kString, kSign };

TokenKind KindOf(const std::string& token) {
  const char c = token[0];
  if (std::isspace(static_cast<unsigned char>(c))) return TokenKind::kSpace;
  if (c == '%') return TokenKind::kValue;
  if (c == '"') return TokenKind::kString;
  if (std::isdigit(static_cast<unsigned char>(c))) return TokenKind::kNumber;
  return std::isalpha(static_cast<unsigned char>(c)) || c == '_' ? TokenKind::kName : TokenKind::kSign;
}

std::vector<std::string> TokensOf(const std::string& text) {
  std::vector<std::string> out;
  const auto is_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':';
  };
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    const char c = text[at];
    if (c == '"') {
      while (end < text.size() && text[end] != '"') ++end;
      end = std::min(end + 1, text.size());
    } else if (c == '%' || is_word(c)) {
      while (end < text.size() && is_word(text[end])) ++end;
      // The colon behind the name of a type or an attribute is a token.
      while (end > at + 1 && text[end - 1] == ':') --end;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      while (end < text.size() && std::isspace(static_cast<unsigned char>(text[end]))) ++end;
    }
    out.push_back(text.substr(at, end - at));
    at = end;
  }
  return out;
}

const char* const kTypes[] = {"Float(4, 8)",
                              "Float()",
                              "Long(3)",
                              "Bool(2, 2)",
                              "Tensor",
                              "int",
                              "float",
                              "bool",
                              "int[]",
                              "Tensor[]",
                              "None",
                              "Float(0, 4)",
                              "Tensor?",
                              "Float(4, 4, 4, 4, strides=[64, 16, 4, 1])",
                              "Double(s0, 4)",
                              "ComplexFloat(4)",
                              "str"};

}  // namespace

TextMutator::TextMutator(std::vector<std::string> texts) {
  for (const std::string& text : texts) {
    auto t = std::make_unique<Text>();
    t->tokens = TokensOf(text);
    texts_.push_back(std::move(t));
  }
}
TextMutator::~TextMutator() = default;

HostileFile TextMutator::Make(uint64_t seed) const {
  Random random(seed * 0x9e3779b97f4a7c15u + 2);
  std::vector<std::string> tokens = AnyOf(random, texts_)->tokens;
  HostileFile file{"text", ".ir", ""};
  const auto some = [&](TokenKind kind, const std::vector<std::string>& of) -> size_t {
    for (int tries = 0; tries < 200; ++tries) {
      const size_t i = Below(random, of.size());
      if (KindOf(of[i]) == kind) return i;
    }
    return 0;
  };
  const auto line_of = [&](size_t at) {
    size_t begin = at, end = at;
    while (begin > 0 && tokens[begin - 1].find('\n') == std::string::npos) --begin;
    while (end < tokens.size() && tokens[end].find('\n') == std::string::npos) ++end;
    return std::pair(begin, std::min(end + 1, tokens.size()));
  };
  for (size_t n = 1 + Below(random, 3); n-- > 0 && tokens.size() > 8;) {
    const size_t at = Below(random, tokens.size());
    const TokenKind kind = KindOf(tokens[at]);
    switch (Below(random, 10)) {
      case 0:
        std::swap(tokens[at], tokens[some(kind, tokens)]);
        absl::StrAppend(&file.what, "; tokens swapped");
        break;
      case 1:
        absl::StrAppend(&file.what, "; without ", tokens[at].substr(0, 30));
        tokens.erase(tokens.begin() + static_cast<int64_t>(at));
        break;
      case 2: {
        const std::vector<std::string>& from = AnyOf(random, texts_)->tokens;
        const std::string token = from[some(kind, from)];
        absl::StrAppend(&file.what, "; ", tokens[at].substr(0, 30), " becomes ", token.substr(0, 30));
        tokens[at] = token;
        break;
      }
      case 3: {
        const size_t number = some(TokenKind::kNumber, tokens);
        const std::string value = std::to_string(SomeNumber(random));
        absl::StrAppend(&file.what, "; ", tokens[number].substr(0, 30), " becomes ", value);
        tokens[number] = value;
        break;
      }
      case 4:
      case 5: {
        const size_t value = some(TokenKind::kValue, tokens), other = some(TokenKind::kValue, tokens);
        absl::StrAppend(&file.what, "; ", tokens[value].substr(0, 30), " becomes ", tokens[other].substr(0, 30));
        tokens[value] = tokens[other];
        break;
      }
      case 6: {
        std::vector<size_t> ops;
        for (size_t i = 0; i < tokens.size(); ++i) {
          if (absl::StrContains(tokens[i], "::")) ops.push_back(i);
        }
        if (ops.empty()) break;
        std::string& op = tokens[AnyOf(random, ops)];
        const std::string other = AnyOf(random, Operators());
        absl::StrAppend(&file.what, "; ", op, " becomes ", other);
        op = other;
        break;
      }
      case 7: {
        const auto [begin, end] = line_of(at);
        std::vector<std::string> line(tokens.begin() + static_cast<int64_t>(begin),
                                      tokens.begin() + static_cast<int64_t>(end));
        const bool twice = Below(random, 2) == 0;
        absl::StrAppend(&file.what, twice ? "; a line twice" : "; a line less");
        if (twice) {
          const auto [place, unused] = line_of(Below(random, tokens.size()));
          tokens.insert(tokens.begin() + static_cast<int64_t>(place), line.begin(), line.end());
        } else {
          tokens.erase(tokens.begin() + static_cast<int64_t>(begin), tokens.begin() + static_cast<int64_t>(end));
        }
        break;
      }
      case 8: {
        // Changes the type behind a value's colon.
        for (int tries = 0; tries < 100; ++tries) {
          const size_t i = Below(random, tokens.size() - 3);
          if (tokens[i] != ":" || KindOf(tokens[i + 1]) != TokenKind::kSpace) continue;
          size_t end = i + 3;
          if (end < tokens.size() && tokens[end] == "(") {
            while (end < tokens.size() && tokens[end] != ")") ++end;
            end = std::min(end + 1, tokens.size());
          }
          const std::string type = AnyOf(random, kTypes);
          absl::StrAppend(&file.what, "; a type becomes ", type);
          tokens.erase(tokens.begin() + static_cast<int64_t>(i) + 2, tokens.begin() + static_cast<int64_t>(end));
          tokens.insert(tokens.begin() + static_cast<int64_t>(i) + 2, type);
          break;
        }
        break;
      }
      default: {
        // Removes an argument: a value and the comma before it.
        const size_t value = some(TokenKind::kValue, tokens);
        size_t comma = value;
        while (comma > 0 && comma + 3 > value && tokens[comma] != ",") --comma;
        if (tokens[comma] != ",") break;
        absl::StrAppend(&file.what, "; without the argument ", tokens[value].substr(0, 30));
        tokens.erase(tokens.begin() + static_cast<int64_t>(comma), tokens.begin() + static_cast<int64_t>(value) + 1);
      }
    }
  }
  for (const std::string& t : tokens) file.bytes += t;
  return file;
}

std::vector<std::string> GraphTexts(const std::string& folder) {
  std::vector<std::string> out;
  std::set<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) paths.insert(entry.path().string());
  for (const std::string& path : paths) {
    if (absl::EndsWith(path, ".ir")) {
      if (auto text = ReadFile(path); text.ok() && text->size() < 10000) out.push_back(*std::move(text));
    } else if (absl::EndsWith(path, ".pt2")) {
      std::error_code error;
      if (std::filesystem::file_size(path, error) > 20000 || error) continue;
      auto model = ReadPt2(path);
      if (!model.ok() || !model->graph->weights.empty()) continue;
      std::string text = PrintGraph(*model->graph);
      if (text.size() < 5000) out.push_back(std::move(text));
    }
  }
  return out;
}

}  // namespace smelt
