const i=require('os').networkInterfaces();console.log(i.lo.some(a=>a.address==='127.0.0.1'))
