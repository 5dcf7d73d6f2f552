#include "smelt/codegen/curl.h"

#include <dlfcn.h>

namespace smelt {
namespace {

template <typename F>
bool Find(void* library, const char* name, F** function) {
  *function = reinterpret_cast<F*>(dlsym(library, name));
  return *function != nullptr;
}

const Curl* Open() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* c = new Curl;
  const bool all =
      Find(library, "curl_global_init", &c->global_init) && Find(library, "curl_easy_init", &c->easy_init) &&
      Find(library, "curl_easy_setopt", &c->easy_setopt) && Find(library, "curl_easy_perform", &c->easy_perform) &&
      Find(library, "curl_easy_getinfo", &c->easy_getinfo) && Find(library, "curl_easy_strerror", &c->easy_strerror) &&
      Find(library, "curl_easy_reset", &c->easy_reset) && Find(library, "curl_easy_cleanup", &c->easy_cleanup) &&
      Find(library, "curl_slist_append", &c->slist_append) &&
      Find(library, "curl_slist_free_all", &c->slist_free_all) && c->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  if (all) return c;
  delete c;
  return nullptr;
}

}  // namespace

const Curl* OpenCurl() {
  static const Curl* const kOpened = Open();
  return kOpened;
}

}  // namespace smelt
