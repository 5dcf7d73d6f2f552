#include "smelt/tools/command_pages.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace smelt {
namespace {

constexpr size_t kWidth = 96;        // of lines in a terminal
constexpr size_t kOptionIndent = 4;  // of what an option does

// "--target=LEVEL", "--random-inputs[=SEED]", "-o OUT"
std::string Head(const OptionSpec& o) {
  if (o.value.empty()) return Dashed(o.name);
  if (o.value_is_optional) return absl::StrCat(Dashed(o.name), "[=", o.value, "]");
  const bool apart = o.name.size() == 1 || absl::StrContains(o.value, '=');
  return absl::StrCat(Dashed(o.name), apart ? " " : "=", o.value);
}

// Lines of at most `width` characters, broken between words.
std::vector<std::string> Wrap(absl::string_view text, size_t width) {
  std::vector<std::string> lines(1);
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > width) lines.emplace_back();
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

std::string Indented(absl::string_view text, size_t indent, size_t width) {
  const std::string space(indent, ' ');
  return absl::StrCat(space, absl::StrJoin(Wrap(text, width - indent), absl::StrCat("\n", space)), "\n");
}

std::vector<std::string> Paragraphs(const CommandSpec& c) { return absl::StrSplit(c.description, "\n\n"); }

// All commands that have pages, smelt-opt last.
std::vector<const CommandSpec*> AllSpecs() {
  std::vector<const CommandSpec*> out;
  for (const CommandSpec& c : Commands()) out.push_back(&c);
  out.push_back(&SmeltOptSpec());
  return out;
}

// --- man ---

// Text that troff prints as it is.
std::string Troff(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out.insert(0, "\\&");
  return out;
}

std::string ManOptions(const CommandSpec& c) {
  std::string out;
  for (const OptionSpec& o : c.options) {
    absl::StrAppend(&out, ".TP\n.B ", Troff(Head(o)), "\n", Troff(o.help), ".\n");
  }
  return out;
}

std::string ManHeader(absl::string_view name, absl::string_view version, absl::string_view summary) {
  return absl::StrCat(".TH \"", name, "\" 1 \"\" \"smelt ", version, "\"\n.SH NAME\n", Troff(name), " \\- ",
                      Troff(summary), "\n.SH SYNOPSIS\n");
}

std::string ManUsage(const CommandSpec& c) {
  std::string out;
  for (const std::string& usage : c.usage)
    absl::StrAppend(&out, ".B ", Troff(c.FullName()), "\n", Troff(usage), "\n.br\n");
  return out;
}

// --- Markdown ---

// A command in a block that is only shown: .ci/docs runs those that are marked sh.
std::string MarkdownCommand(const CommandSpec& c) {
  std::string out = absl::StrCat("## ", c.FullName(), "\n\n```text\n");
  for (const std::string& usage : c.usage) {
    const std::vector<std::string> lines = Wrap(absl::StrCat(c.FullName(), " ", usage), 94);
    absl::StrAppend(&out, absl::StrJoin(lines, "\n    "), "\n");
  }
  out += "```\n\n";
  for (const std::string& paragraph : Paragraphs(c))
    absl::StrAppend(&out, absl::StrJoin(Wrap(paragraph, 95), "\n"), "\n\n");
  for (const OptionSpec& o : c.options) {
    const std::vector<std::string> lines = Wrap(absl::StrCat("`", Head(o), "`: ", o.help, "."), 93);
    absl::StrAppend(&out, "- ", absl::StrJoin(lines, "\n  "), "\n");
  }
  out += "\n";
  if (!c.examples.empty()) {
    out += "```text\n";
    for (const CommandExample& e : c.examples) absl::StrAppend(&out, "# ", e.what, "\n", e.command, "\n");
    out += "```\n\n";
  }
  return out;
}

// --- completion ---

std::string WordList(const std::vector<std::string>& words) { return absl::StrJoin(words, " "); }

std::string BashScript() {
  std::string out =
      "# Completion of smelt and smelt-opt for bash: source <(smelt completion bash)\n"
      "_smelt() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} options= words= value= first=2\n"
      "  # = is a word of its own: --target=x is three.\n"
      "  local name= ; COMPREPLY=()\n"
      "  if [[ $cur == = ]]; then name=${COMP_WORDS[COMP_CWORD - 1]} cur=\n"
      "  elif ((COMP_CWORD > 1)) && [[ ${COMP_WORDS[COMP_CWORD - 1]} == = ]]; then name=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  elif [[ ${COMP_WORDS[COMP_CWORD - 1]} == -* ]]; then value=${COMP_WORDS[COMP_CWORD - 1]}; fi\n"
      "  [[ ${COMP_WORDS[0]##*/} == smelt-opt ]] && command=smelt-opt first=1\n"
      "  if ((COMP_CWORD == 1 && first == 2)); then\n";
  std::vector<std::string> names;
  for (const CommandSpec& c : Commands()) names.push_back(c.name);
  absl::StrAppend(&out, "    mapfile -t COMPREPLY < <(compgen -W '", WordList(names),
                  " --help --version' -- \"$cur\"); return\n  fi\n  case $command in\n");
  for (const CommandSpec* c : AllSpecs()) {
    std::vector<std::string> options;
    for (const OptionSpec& o : c->options)
      options.push_back(Dashed(o.name) + (o.value.empty() || o.value_is_optional ? "" : "="));
    absl::StrAppend(&out, "    ", c->name.empty() ? c->program : c->name, ") options='", WordList(options), "' words='",
                    WordList(c->words), "'\n      case $name$value in\n");
    for (const OptionSpec& o : c->options) {
      if (o.value.empty()) continue;
      const std::string offer = o.is_file ? "-f" : absl::StrCat("-W '", WordList(o.words), "'");
      absl::StrAppend(&out, "        ", Dashed(o.name), ") ", o.value_is_optional ? "[[ -z $name ]] || { " : "",
                      "mapfile -t COMPREPLY < <(compgen ", offer, " -- \"$cur\"); return",
                      o.value_is_optional ? "; }" : "", " ;;\n");
    }
    out += "      esac ;;\n";
  }
  out +=
      "  esac\n"
      "  if [[ $cur == -* ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"${options//=/= }\" -- \"$cur\")\n"
      "    [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace\n"
      "  elif [[ -n $words ]] && ((COMP_CWORD == first)); then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
      "  fi\n"
      "  return 0\n"
      "}\n"
      "complete -o filenames -F _smelt smelt smelt-opt\n";
  return out;
}

// A text in single quotes, for zsh and fish.
std::string Quoted(absl::string_view text, absl::string_view quote) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", quote}}), "'");
}

// A part of an _arguments specification: brackets and colons have a meaning there.
std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}, {"'", "'\\''"}});
}

std::string ZshScript() {
  std::string out =
      "#compdef smelt smelt-opt\n"
      "# Completion of smelt and smelt-opt for zsh: a file _smelt in a folder of $fpath.\n"
      "_smelt() {\n"
      "  local command=$words[2]\n"
      "  if [[ ${words[1]:t} == smelt-opt ]]; then command=smelt-opt\n"
      "  elif ((CURRENT == 2)); then\n"
      "    local -a commands=(\n";
  for (const CommandSpec& c : Commands()) absl::StrAppend(&out, "      '", c.name, ":", ZshText(c.summary), "'\n");
  out +=
      "    )\n"
      "    _describe command commands; return\n"
      "  else shift words; ((CURRENT--)); fi\n"
      "  case $command in\n";
  for (const CommandSpec* c : AllSpecs()) {
    absl::StrAppend(&out, "    ", c->name.empty() ? c->program : c->name, ") _arguments");
    for (const OptionSpec& o : c->options) {
      absl::StrAppend(&out, " \\\n      '*", Dashed(o.name));
      if (!o.value.empty()) absl::StrAppend(&out, o.name.size() == 1 ? "" : o.value_is_optional ? "=-" : "=");
      absl::StrAppend(&out, "[", ZshText(o.help), "]");
      if (!o.value.empty()) {
        absl::StrAppend(&out, o.value_is_optional ? "::" : ":", ZshText(o.value), ":",
                        o.is_file         ? "_files"
                        : o.words.empty() ? ""
                                          : absl::StrCat("(", WordList(o.words), ")"));
      }
      out += "'";
    }
    if (!c->words.empty()) absl::StrAppend(&out, " \\\n      '1:word:(", WordList(c->words), ")'");
    out += " \\\n      '*:file:_files' ;;\n";
  }
  out += "  esac\n}\n_smelt \"$@\"\n";
  return out;
}

std::string FishScript() {
  std::string out = "# Completion of smelt and smelt-opt for fish: smelt completion fish | source\n";
  for (const CommandSpec& c : Commands()) {
    absl::StrAppend(&out, "complete -c smelt -n __fish_use_subcommand -f -a ", c.name, " -d ", Quoted(c.summary, "\\'"),
                    "\n");
  }
  for (const CommandSpec* c : AllSpecs()) {
    const std::string begin = c->name.empty()
                                  ? absl::StrCat("complete -c ", c->program)
                                  : absl::StrCat("complete -c smelt -n '__fish_seen_subcommand_from ", c->name, "'");
    if (!c->words.empty()) absl::StrAppend(&out, begin, " -a '", WordList(c->words), "'\n");
    for (const OptionSpec& o : c->options) {
      absl::StrAppend(&out, begin, o.name.size() == 1 ? " -s " : " -l ", o.name,
                      o.value.empty() || o.value_is_optional ? ""
                      : o.is_file                            ? " -r -F"
                                                             : " -x",
                      o.words.empty() ? "" : absl::StrCat(" -a '", WordList(o.words), "'"), " -d ",
                      Quoted(o.help, "\\'"), "\n");
    }
  }
  return out;
}

}  // namespace

std::string HelpText(const CommandSpec& c) {
  std::string out;
  const char* begin = "usage: ";
  for (const std::string& usage : c.usage) {
    const std::vector<std::string> lines = Wrap(absl::StrCat(c.FullName(), " ", usage), kWidth - 11);
    absl::StrAppend(&out, begin, absl::StrJoin(lines, "\n           "), "\n");
    begin = "       ";
  }
  for (const std::string& paragraph : Paragraphs(c)) absl::StrAppend(&out, "\n", Indented(paragraph, 0, kWidth));
  out += "\noptions:\n";
  for (const OptionSpec& o : c.options)
    absl::StrAppend(&out, "  ", Head(o), "\n", Indented(o.help, 2 + kOptionIndent, kWidth));
  if (!c.examples.empty()) out += "\nexamples:\n";
  for (const CommandExample& e : c.examples) absl::StrAppend(&out, "  ", e.command, "\n      ", e.what, "\n");
  return out;
}

std::string OverviewText() {
  std::string out = "smelt compiles PyTorch model files to bundles of kernels, and runs them.\n\ncommands:\n";
  for (const CommandSpec& c : Commands())
    absl::StrAppend(&out, "  ", c.name, std::string(12 - c.name.size(), ' '), c.summary, "\n");
  out +=
      "\nsmelt help COMMAND says more, as does smelt COMMAND --help (-h). smelt --version (-V) prints what\n"
      "machines must have in common to make the same bytes. @FILE among the arguments stands for the\n"
      "lines of a file, without empty ones and those that begin with #.\n\nexit codes:\n";
  for (const ExitCodeText& e : ExitCodeTexts())
    absl::StrAppend(&out, e.code < 10 ? "   " : "  ", e.code, "  ", e.meaning, "\n");
  return out;
}

std::string SmeltManPage(absl::string_view version) {
  std::string out = ManHeader("smelt", version, "compile PyTorch model files to bundles of kernels, and run them");
  out += ".B smelt\nCOMMAND [options]\n.SH COMMANDS\n";
  for (const CommandSpec& c : Commands()) {
    absl::StrAppend(&out, ".SS smelt ", c.name, "\n", ManUsage(c), ".P\n");
    std::vector<std::string> paragraphs;
    for (const std::string& p : Paragraphs(c)) paragraphs.push_back(Troff(p));
    absl::StrAppend(&out, absl::StrJoin(paragraphs, "\n.P\n"), "\n", ManOptions(c));
    for (const CommandExample& e : c.examples)
      absl::StrAppend(&out, ".P\nExample (", Troff(e.what), "):\n.br\n", Troff(e.command), "\n");
  }
  out += ".SH EXIT STATUS\n";
  for (const ExitCodeText& e : ExitCodeTexts()) absl::StrAppend(&out, ".TP\n.B ", e.code, "\n", Troff(e.meaning), "\n");
  out += ".SH SEE ALSO\n.BR smelt\\-opt (1)\n";
  return out;
}

std::string SmeltOptManPage(absl::string_view version) {
  const CommandSpec& c = SmeltOptSpec();
  return absl::StrCat(ManHeader("smelt-opt", version, c.summary), ManUsage(c), ".SH DESCRIPTION\n",
                      Troff(c.description), "\n.SH OPTIONS\n", ManOptions(c), ".SH SEE ALSO\n.BR smelt (1)\n");
}

std::string CliMarkdown() {
  std::string out =
      "# The command line\n\n"
      "This page is written by `//tools:write_command_pages` from the table of options in\n"
      "`tools/command_table.cc`, from which `--help`, the man pages and the shell completions come too.\n\n"
      "An option with a value is `--name=VALUE` or `--name VALUE`. `@FILE` among the arguments stands\n"
      "for the lines of a file, without empty ones and those that begin with `#`. `--` ends the\n"
      "options. Results go to standard output; messages, progress and the summary at the end go to\n"
      "standard error. Work that takes over a second shows a bar on a terminal; elsewhere a line after\n"
      "one second and then every ten. The fields of JSON are those of [json.md](json.md), the exit codes\n"
      "those of [exit_codes.md](exit_codes.md).\n\n"
      "| command | purpose |\n|---|---|\n";
  for (const CommandSpec* c : AllSpecs()) absl::StrAppend(&out, "| `", c->FullName(), "` | ", c->summary, " |\n");
  out += "\n";
  for (const CommandSpec* c : AllSpecs()) out += MarkdownCommand(*c);
  while (out.size() > 1 && out[out.size() - 2] == '\n') out.pop_back();
  return out;
}

std::string CompletionScript(absl::string_view shell) {
  if (shell == "bash") return BashScript();
  if (shell == "zsh") return ZshScript();
  if (shell == "fish") return FishScript();
  return "";
}

}  // namespace smelt
