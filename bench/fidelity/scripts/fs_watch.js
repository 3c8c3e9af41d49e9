const fs=require('fs');fs.mkdirSync('w');const w=fs.watch('w',(e,f)=>{console.log(e,f);w.close()});setTimeout(()=>fs.writeFileSync('w/x','1'),50)
