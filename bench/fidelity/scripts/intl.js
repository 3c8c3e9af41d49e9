console.log(new Intl.NumberFormat('de-DE').format(1234.5),new Date(0).toLocaleDateString('en-US',{timeZone:'UTC'}),'ä'.localeCompare('z','de'),Intl.DateTimeFormat().resolvedOptions().timeZone)
