// Writes what people read about the commands, all from the table of command_table.h: help, man pages, docs/cli.md, and
// the completions of shells.
#ifndef SMELT_TOOLS_COMMAND_PAGES_H_
#define SMELT_TOOLS_COMMAND_PAGES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "smelt/tools/command_table.h"

namespace smelt {

// The output of `smelt COMMAND --help`.
std::string HelpText(const CommandSpec& command);
// The output of `smelt --help`: the commands and the exit codes.
std::string OverviewText();

// A page for man, in section 1: of smelt with all commands, or of smelt-opt.
std::string SmeltManPage(absl::string_view version);
std::string SmeltOptManPage(absl::string_view version);

// docs/cli.md.
std::string CliMarkdown();

// A script for "bash", "zsh" or "fish"; "" for another shell.
std::string CompletionScript(absl::string_view shell);

}  // namespace smelt

#endif  // SMELT_TOOLS_COMMAND_PAGES_H_
