// Functions of a library that is opened at run time.
#ifndef SMELT_CORE_BASE_FIND_SYMBOL_H_
#define SMELT_CORE_BASE_FIND_SYMBOL_H_

#include <dlfcn.h>

namespace smelt {

// Points `*function` at the function `name` of a library that dlopen() gave. Returns false, and a null pointer there, if
// neither the library nor one that it needs has it.
template <typename F>
bool FindSymbol(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  return *function != nullptr;
}

}  // namespace smelt

#endif  // SMELT_CORE_BASE_FIND_SYMBOL_H_
