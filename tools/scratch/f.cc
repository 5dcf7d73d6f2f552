#include <iostream>
#include "smelt/frontend/pt2.h"
#include "smelt/core/ir/text.h"
#include "smelt/functionalize/functionalize.h"
#include "smelt/functionalize/open_composites.h"
#include "smelt/fuser/expand_composites.h"
#include "smelt/fuser/lower_group.h"
int main(int argc,char**argv){ bool print=false; for(int i=1;i<argc;++i){ if(std::string(argv[i])=="-p"){print=true;continue;}
 auto m=smelt::ReadPt2(argv[i]); if(!m.ok()){std::cout<<argv[i]<<": READ "<<m.status().message()<<"\n";continue;}
 smelt::Graph& g=*m->graph;
 auto o=smelt::OpenComposites(g); if(!o.ok()){std::cout<<argv[i]<<": OPEN "<<o.status()<<"\n";continue;}
 auto f=smelt::Functionalize(g,{}); if(!f.ok()){std::cout<<argv[i]<<": FUNC "<<f.status()<<"\n";continue;}
 if(print) std::cout<<smelt::PrintGraph(g)<<f->convention.ToString()<<"\n";
 auto v=smelt::VerifyFunctional(g); if(!v.ok()){std::cout<<argv[i]<<": VERIFY "<<v<<"\n";continue;}
 auto s=smelt::VerifyGraph(g); if(!s.ok()){std::cout<<argv[i]<<": VERIFYGRAPH "<<s<<"\n";continue;}
 auto e=smelt::ExpandComposites(g); if(!e.ok()){std::cout<<argv[i]<<": EXPAND "<<e<<"\n";continue;}
 if(print) std::cout<<smelt::PrintGraph(g)<<"\n";
 for(auto n: g.AllNodes()) if(smelt::IsKernelNode(g,n)){ auto l=smelt::LowerGroup(g,n,[&](smelt::ValueId v){return smelt::DefaultLayout(g,v);}); if(!l.ok()) std::cout<<argv[i]<<": LOWER "<<l.status()<<"\n"; }
 }}
