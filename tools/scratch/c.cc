#include <iostream>
#include "smelt/frontend/pt2.h"
#include "smelt/core/ir/text.h"
#include "smelt/pipeline/compile.h"
int main(int argc,char**argv){ std::string out="/tmp/smb/"; smelt::KernelCache::Options co; co.directory="/tmp/smeltcache"; auto cache=smelt::KernelCache::Create(co);
 for(int i=1;i<argc;++i){ 
 auto m=smelt::ReadPt2(argv[i]); if(!m.ok()){std::cout<<argv[i]<<": READ "<<m.status().message()<<"\n";continue;}
 smelt::CompileOptions o; o.cache=cache->get(); std::string stem=argv[i]; stem=stem.substr(stem.rfind('/')+1); m->graph->name=stem;
 if(getenv("DUMP")) o.on_pass=[](absl::string_view p,const smelt::Graph& g){ std::cout<<"--- "<<p<<"\n"<<smelt::PrintGraph(g)<<"\n"; };
 auto s=smelt::CompileToFile(*m->graph,out+stem+".smb",o); if(!s.ok()){std::cout<<argv[i]<<": "<<s.status()<<"\n";continue;}
 std::cout<<stem<<" nodes "<<s->nodes<<" mut "<<s->mutations_removed<<" groups "<<s->fusion_groups<<" distinct "<<s->distinct_kernels<<" lib "<<s->library_calls<<" compiled "<<s->kernels_compiled<<" cached "<<s->kernels_from_cache<<" bytes "<<s->bundle_bytes;
 for(auto&[p,ms]:s->phase_ms) std::cout<<" "<<p<<"="<<ms;
 std::cout<<std::endl;
 }}
