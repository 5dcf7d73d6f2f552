#include "smelt/tools/cache_command.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "smelt/codegen/kernel_cache.h"
#include "smelt/codegen/kernel_key.h"
#include "smelt/codegen/key_difference.h"
#include "smelt/codegen/target.h"
#include "smelt/core/base/closest_word.h"
#include "smelt/runtime/json_text.h"
#include "smelt/tools/command_line.h"
#include "smelt/tools/exit_codes.h"
#include "smelt/tools/progress.h"

namespace smelt {

namespace {

using Json = nlohmann::ordered_json;
using EntryInfo = KernelCache::EntryInfo;

// The lines "target ..." and "generator ..." that a key's text begins with.
std::string LineOf(const EntryInfo& e, absl::string_view word) {
  for (absl::string_view line : absl::StrSplit(e.key_text, '\n')) {
    if (absl::ConsumePrefix(&line, word)) return std::string(absl::StripPrefix(line, " "));
  }
  return "";
}
bool IsCurrent(const EntryInfo& e) {
  const absl::StatusOr<Target> target = ParseTarget(LineOf(e, "target"));
  return target.ok() && LineOf(e, "generator") == CodeGeneratorIdentity(*target);
}

Json StatsOf(const KernelCache& cache, const std::vector<EntryInfo>& entries) {
  Json j;
  j["directory"] = cache.directory();
  j["entries"] = entries.size();
  int64_t bytes = 0, damaged = 0, current = 0;
  std::map<std::string, int64_t> targets;
  for (const EntryInfo& e : entries) {
    bytes += e.bytes;
    damaged += e.key_text.empty();
    current += IsCurrent(e);
    if (!e.key_text.empty()) ++targets[LineOf(e, "target")];
  }
  j["bytes"] = bytes;
  j["damaged"] = damaged;
  j["current_generator"] = current;
  j["generator"] = CodeGeneratorIdentity(Target::kX86_64_V3);
  j["targets"] = Json::object();
  for (const auto& [name, count] : targets) j["targets"][name] = count;
  return j;
}

Json EntryJson(const EntryInfo& e) {
  Json j = {{"key", e.key}, {"bytes", e.bytes}, {"damaged", e.key_text.empty()}};
  if (e.key_text.empty()) return j;
  j["target"] = LineOf(e, "target");
  j["current_generator"] = IsCurrent(e);
  const size_t spec = e.key_text.find("\nspec\n");
  j["spec"] = spec == std::string::npos ? "" : e.key_text.substr(spec + 6);
  return j;
}

// One entry in a line: "3f2a9c01d2e4  x86-64-v3  2340 bytes  load.p0 mul add store.p1".
std::string Summary(const EntryInfo& e) {
  if (e.key_text.empty()) return absl::StrCat(e.key.substr(0, 12), "  ", e.bytes, " bytes  damaged");
  std::string ops;
  int count = 0;
  for (absl::string_view line : absl::StrSplit(e.key_text, '\n')) {
    if (line.empty() || line[0] != '%') continue;
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() > 2 && ++count <= 12) absl::StrAppend(&ops, " ", words[2]);
  }
  if (count > 12) absl::StrAppend(&ops, " and ", count - 12, " more");
  return absl::StrCat(e.key.substr(0, 12), "  ", LineOf(e, "target"), "  ", e.bytes, " bytes ", ops,
                      IsCurrent(e) ? "" : "  (of another code generator)");
}

// The entry whose key differs least from e's, and the differences.
const EntryInfo* Nearest(const std::vector<EntryInfo>& entries, const EntryInfo& e, std::vector<KeyDifference>* parts) {
  const EntryInfo* nearest = nullptr;
  for (const EntryInfo& other : entries) {
    if (other.key == e.key || other.key_text.empty()) continue;
    std::vector<KeyDifference> differences = CompareKeys(e.key_text, other.key_text);
    if (nearest != nullptr && differences.size() >= parts->size()) continue;
    nearest = &other;
    *parts = std::move(differences);
  }
  return nearest;
}

int Explain(const std::vector<EntryInfo>& entries, const std::string& wanted, bool json) {
  if (wanted.empty()) {
    Json all = Json::array();
    for (const EntryInfo& e : entries) {
      if (json) {
        all.push_back(EntryJson(e));
      } else {
        std::printf("%s\n", Summary(e).c_str());
      }
    }
    if (json) std::printf("%s\n", JsonText(Json{{"entries", all}}).c_str());
    return kExitOk;
  }
  const EntryInfo* found = nullptr;
  for (const EntryInfo& e : entries) {
    if (!absl::StartsWith(e.key, wanted)) continue;
    if (found != nullptr) {
      std::fprintf(stderr, "smelt cache explain: several keys begin with %s\n", wanted.c_str());
      return kExitUsage;
    }
    found = &e;
  }
  if (found == nullptr) {
    std::fprintf(stderr, "smelt cache explain: no entry's key begins with %s; smelt cache explain lists all entries\n",
                 wanted.c_str());
    return kExitUsage;
  }
  std::vector<KeyDifference> parts;
  const EntryInfo* nearest = found->key_text.empty() ? nullptr : Nearest(entries, *found, &parts);
  if (json) {
    Json j = EntryJson(*found);
    if (nearest != nullptr) {
      Json differences = Json::array();
      for (const KeyDifference& d : parts)
        differences.push_back({{"part", d.part}, {"where", d.where}, {"this", d.wanted}, {"other", d.cached}});
      j["nearest"] = {{"key", nearest->key}, {"differences", differences}};
    }
    std::printf("%s\n", JsonText(j).c_str());
    return kExitOk;
  }
  std::printf("%s\n%s", Summary(*found).c_str(), found->key_text.c_str());
  if (nearest != nullptr) {
    std::printf("nearest: %s, which differs in %d parts\n", nearest->key.substr(0, 12).c_str(),
                static_cast<int>(parts.size()));
    for (const KeyDifference& d : parts) {
      std::printf("  %s%s%s: %s here, %s there\n", d.part.c_str(), d.where.empty() ? "" : " of ", d.where.c_str(),
                  d.wanted.empty() ? "none" : d.wanted.c_str(), d.cached.empty() ? "none" : d.cached.c_str());
    }
  }
  return kExitOk;
}

}  // namespace

int RunCache(const CommandLine& line) {
  const std::string verb = line.positional().empty() ? "" : line.positional()[0];
  const size_t most = verb == "explain" ? 2 : 1;
  absl::Status usage;
  if (verb != "stats" && verb != "explain" && verb != "verify" && verb != "clear") {
    const std::string meant = ClosestWord(verb, FindCommand("cache")->words);
    usage = absl::InvalidArgumentError(absl::StrCat("\"", verb, "\": stats, explain, verify or clear expected",
                                                    meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?")));
  } else if (line.positional().size() > most) {
    usage = absl::InvalidArgumentError(absl::StrCat("\"", line.positional()[most], "\" is not expected"));
  }
  if (!usage.ok()) return UsageError(*FindCommand("cache"), usage);
  auto fail = [&](const absl::Status& s, int code) {
    std::fprintf(stderr, "smelt cache %s: %s\n", verb.c_str(), std::string(s.message()).c_str());
    return code;
  };
  KernelCache::Options options;
  options.directory = line.Get("cache-dir");
  // Only clear writes; no other command makes the directory.
  options.mode = verb == "clear" ? CacheMode::kReadWrite : CacheMode::kReadOnly;
  auto cache = KernelCache::Create(options);
  if (!cache.ok()) return fail(cache.status(), kExitCannotWrite);
  Progress progress(absl::StrCat("smelt cache ", verb), line.Has("quiet"));
  progress.Doing(absl::StrCat("reading ", (*cache)->directory()));
  auto entries = (*cache)->List();
  progress.Stop();
  if (!entries.ok()) return fail(entries.status(), kExitUnreadable);
  const bool json = line.Has("json");
  if (verb == "explain") return Explain(*entries, line.positional().size() > 1 ? line.positional()[1] : "", json);
  if (verb == "stats") {
    const Json j = StatsOf(**cache, *entries);
    if (json) {
      std::printf("%s\n", JsonText(j).c_str());
      return kExitOk;
    }
    for (auto it = j.begin(); it != j.end(); ++it)
      std::printf("%-18s %s\n", it.key().c_str(),
                  it->is_string() ? it->get<std::string>().c_str() : JsonText(*it).c_str());
    return kExitOk;
  }
  if (verb == "verify") {
    Json damaged = Json::array();
    for (const EntryInfo& e : *entries) {
      if (e.key_text.empty()) damaged.push_back(e.key);
    }
    if (json) {
      std::printf("%s\n", JsonText(Json{{"entries", entries->size()}, {"damaged", damaged}}).c_str());
    } else {
      for (const Json& key : damaged) std::printf("damaged: %s\n", key.get<std::string>().c_str());
      std::printf("%d entries, %d damaged\n", static_cast<int>(entries->size()), static_cast<int>(damaged.size()));
    }
    return damaged.empty() ? kExitOk : kExitUnreadable;
  }
  const absl::Status cleared = (*cache)->Clear();
  if (!cleared.ok()) return fail(cleared, kExitCannotWrite);
  if (json) {
    std::printf("%s\n", JsonText(Json{{"removed", entries->size()}}).c_str());
  } else {
    std::printf("%d entries removed\n", static_cast<int>(entries->size()));
  }
  return kExitOk;
}

}  // namespace smelt
