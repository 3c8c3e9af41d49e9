const net=require('net');const s=net.createServer(c=>c.end('unix'));s.listen('./sock',()=>{net.connect('./sock').on('data',d=>{console.log(d.toString());s.close()})})
