// Rows whose operands or results lie across them (fuser/row_tiles.h). Some rows of such an operand are read in the order of
// memory, transposed in registers, and kept in a buffer, from which the kernel of the rows takes them as if they lay along
// the rows; results go the other way. That kernel is a function of its own, called for the rows of one buffer at a time.
//
//   const RowTiles tiles = RowTiles::Of(spec);
//   ... emits a kernel of SpecOfTiledRows(spec, tiles), and one of `spec` for rows that are too long ...
//   EmitRowTiles(plan, tiles, *in_tiles, *across, symbol);
#ifndef SMELT_CODEGEN_EMIT_ROW_TILES_H_
#define SMELT_CODEGEN_EMIT_ROW_TILES_H_

#include <string>
#include <vector>

#include "llvm/IR/Function.h"
#include "smelt/codegen/schedule.h"
#include "smelt/fuser/kernel_spec.h"
#include "smelt/fuser/row_tiles.h"

namespace smelt {

// Returns the spec of the kernel that finds the tiled params in buffers: along the rows they have unit stride.
KernelSpec SpecOfTiledRows(const KernelSpec& spec, const RowTiles& tiles);

// Returns whether the first access to a param reads it.
bool IsReadFirst(const KernelSpec& spec, int param);

// Emits the kernel of a schedule, whose spec has these tiles, as `symbol`. It calls `in_tiles` for the rows of one buffer
// after the other, or `across` for all of them if the buffers have no room for some rows. `fills_next`: that of the schedule
// of `in_tiles`.
void EmitRowTiles(const Schedule& plan, const RowTiles& tiles, const std::vector<bool>& fills_next,
                  llvm::Function& in_tiles, llvm::Function& across, const std::string& symbol);

}  // namespace smelt

#endif  // SMELT_CODEGEN_EMIT_ROW_TILES_H_
