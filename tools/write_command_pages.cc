// Writes a page about the commands to standard output: for the packages, and for docs/cli.md.
//   write_command_pages markdown|bash|zsh|fish
//   write_command_pages man smelt|smelt-opt VERSION
#include <cstdio>
#include <string>
#include <vector>

#include "smelt/tools/command_pages.h"

int main(int argc, char** argv) {
  const std::vector<std::string> args(argv + 1, argv + argc);
  std::string out;
  if (args.size() == 1) out = args[0] == "markdown" ? smelt::CliMarkdown() : smelt::CompletionScript(args[0]);
  if (args.size() == 3 && args[0] == "man" && args[1] == "smelt") out = smelt::SmeltManPage(args[2]);
  if (args.size() == 3 && args[0] == "man" && args[1] == "smelt-opt") out = smelt::SmeltOptManPage(args[2]);
  if (out.empty()) {
    std::fputs("write_command_pages: markdown, bash, zsh, fish, or man smelt|smelt-opt VERSION expected\n", stderr);
    return 2;
  }
  return std::fputs(out.c_str(), stdout) < 0 || std::fflush(stdout) != 0 ? 6 : 0;
}
