const dns=require('dns');dns.lookup('localhost',{family:4},(e,a,f)=>{console.log(e,a,f);dns.promises.lookup('127.0.0.1').then(console.log);dns.lookup('no-such-name.invalid',e=>console.log(!!e))})
