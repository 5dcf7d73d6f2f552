#include "smelt/codegen/llvm_memory.h"

#include <mutex>
#include <new>

#include "llvm/Support/ErrorHandling.h"

namespace smelt {
namespace {

void OutOfMemory(void*, const char*, bool) {
  if (const std::new_handler handler = std::get_new_handler()) handler();
  throw std::bad_alloc();
}

}  // namespace

void ThrowWhereLlvmHasNoMemory() {
  static std::once_flag once;
  std::call_once(once, [] { llvm::install_bad_alloc_error_handler(OutOfMemory); });
}

}  // namespace smelt
