#include "smelt/codegen/curl.h"

#include <dlfcn.h>

#include "smelt/core/base/find_symbol.h"

namespace smelt {
namespace {

const Curl* Open() {
  void* library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  auto* c = new Curl;
  const bool all = FindSymbol(library, "curl_global_init", &c->global_init) &&
                   FindSymbol(library, "curl_easy_init", &c->easy_init) &&
                   FindSymbol(library, "curl_easy_setopt", &c->easy_setopt) &&
                   FindSymbol(library, "curl_easy_perform", &c->easy_perform) &&
                   FindSymbol(library, "curl_easy_getinfo", &c->easy_getinfo) &&
                   FindSymbol(library, "curl_easy_strerror", &c->easy_strerror) &&
                   FindSymbol(library, "curl_easy_reset", &c->easy_reset) &&
                   FindSymbol(library, "curl_easy_cleanup", &c->easy_cleanup) &&
                   FindSymbol(library, "curl_slist_append", &c->slist_append) &&
                   FindSymbol(library, "curl_slist_free_all", &c->slist_free_all) &&
                   c->global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
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
