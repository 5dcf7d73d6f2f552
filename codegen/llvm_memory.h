// LLVM where memory is short.
#ifndef SMELT_CODEGEN_LLVM_MEMORY_H_
#define SMELT_CODEGEN_LLVM_MEMORY_H_

namespace smelt {

// Makes LLVM treat exhausted memory as operator new does: it calls the new-handler, or throws std::bad_alloc if there
// is none. By itself LLVM ends the process. May be called often and by several threads.
void ThrowWhereLlvmHasNoMemory();

}  // namespace smelt

#endif  // SMELT_CODEGEN_LLVM_MEMORY_H_
