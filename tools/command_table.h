// The commands of smelt and their options: the one table from which arguments are parsed, and from which the help, the
// man pages, the shell completions and docs/cli.md are written (command_pages.h).
//
//   const CommandSpec* run = FindCommand("run");
//   run->options   // --case, --inputs, ...
//
// A new option is one entry here and the code that reads it. The table holds text only: it links nothing of the
// compiler, so that a build can write the pages before the compiler exists.
#ifndef SMELT_TOOLS_COMMAND_TABLE_H_
#define SMELT_TOOLS_COMMAND_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace smelt {

struct OptionSpec {
  std::string name;                // "target"; an option of one letter has one dash: "o"
  std::string value;               // as the help calls it: "LEVEL[,LEVEL...]"; empty for a flag
  std::string help;                // begins in lower case and ends without a full stop
  std::vector<std::string> words;  // values that a shell offers; parsing does not check them
  bool is_file = false;            // a shell offers files
  bool value_is_optional = false;  // both --name and --name=VALUE
  std::string same_as = "";        // another name of that option
};

struct CommandExample {
  std::string command, what;
};

struct CommandSpec {
  std::string name;                // "compile"
  std::string summary;             // one line of a list of commands
  std::vector<std::string> usage;  // what may follow the name, one line for each way of using it
  std::string description;         // paragraphs, separated by empty lines
  std::vector<OptionSpec> options;
  std::vector<std::string> words = {};  // for the first argument, in place of files
  std::vector<CommandExample> examples = {};
  std::string program = "smelt";

  std::string FullName() const;  // "smelt compile", "smelt-opt"
  const OptionSpec* Find(absl::string_view option) const;
};

// The commands of smelt, in the order in which its help lists them.
const std::vector<CommandSpec>& Commands();
// Null if there is none of this name.
const CommandSpec* FindCommand(absl::string_view name);
// The program smelt-opt, which has no commands.
const CommandSpec& SmeltOptSpec();

struct ExitCodeText {
  int code;
  const char* meaning;
};
const std::vector<ExitCodeText>& ExitCodeTexts();

// "-o", "--target"
std::string Dashed(absl::string_view option);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMMAND_TABLE_H_
