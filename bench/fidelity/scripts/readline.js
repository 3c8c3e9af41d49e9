const rl=require('readline').createInterface({input:require('stream').Readable.from(['a\nb\n'])});rl.on('line',l=>console.log('line',l)).on('close',()=>console.log('close'))
