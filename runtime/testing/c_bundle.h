/* A bundle for the test of the C interface: f(x): x.relu_() of 4 floats; return {"x": x, "logits": x + 1}. */
#ifndef SMELT_RUNTIME_TESTING_C_BUNDLE_H_
#define SMELT_RUNTIME_TESTING_C_BUNDLE_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
/* Valid for the life of the process. */
const void* c_test_bundle(size_t* size);
/* The methods fill(x): cache.copy_(x), and read(of): return {"sum": cache + 1, "rows": len(of)}; cache is [1, 2, 3]. */
const void* c_methods_bundle(size_t* size);
#ifdef __cplusplus
}
#endif

#endif /* SMELT_RUNTIME_TESTING_C_BUNDLE_H_ */
