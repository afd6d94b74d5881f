console.log('before it broke');
throw new Error('broken while imported');
