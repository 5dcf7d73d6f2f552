// Random programs over views, in-place operators, lists, tuples, Ifs, Loops and calls; run_program.h runs them.
#ifndef SMELT_ALIAS_RANDOM_PROGRAM_H_
#define SMELT_ALIAS_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>

namespace smelt {

struct RandomProgramOptions {
  int nodes = 20;
  int max_depth = 3;          // of blocks
  bool typed_inputs = false;  // inputs with sizes and strides
  bool geometry_changes = true;
  bool self_overlaps = false;  // expanded and unfolded views, which overlap themselves, and what is split off them
  // Views whose dims count from the end and whose bounds are computed, as from a loop's index or the present sizes;
  // they change ranks and shapes, round after round in loops. Conditions are computed, too.
  bool any_shape = false;
  bool calls = false;  // of graphs, and of unknown functions, which do anything to their arguments
  // Blocks as torch.export has them, which take operands (smelt::cond, smelt::while_loop), and conditions that are
  // tensors.
  bool closed_blocks = false;
};
std::string RandomProgram(uint64_t seed, const RandomProgramOptions& options);
// The number of programs that a test runs, and the first seed: SMELT_ALIAS_PROGRAMS and SMELT_ALIAS_SEED in the
// environment, or `usual` and 1.
int64_t NumPrograms(int64_t usual);
int64_t FirstSeed();

}  // namespace smelt

#endif  // SMELT_ALIAS_RANDOM_PROGRAM_H_
